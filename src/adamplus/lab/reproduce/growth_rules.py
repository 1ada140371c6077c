"""Rules on the growth of Σ‖z‖: its plateau, and accuracies at the epoch where the paper sees it."""

from dataclasses import dataclass

from .._present import number, summarize
from ..report import StoredRun
from .findings import Finding, Verdict
from .growth import SLOW, Growth, growth
from .stored_runs import Stored

KNEE, KNEE_WIDTH = 154 / 350, 0.05
FAR = 0.01
"""Accuracies that differ by at least this are far from each other."""


@dataclass(frozen=True)
class Flattens:
    """Σ‖z‖ reaches a plateau, perhaps at a given epoch."""

    where: bool
    """Whether the epoch is claimed, too."""

    @property
    def text(self) -> str:
        """The rule as text."""
        place = f", at 154/350 of the run, give or take {KNEE_WIDTH:g} of it," if self.where else ""
        return (
            f"after the epoch{place} at which growth of Σ‖z‖ of Adam⁺ falls by the largest factor, from the mean over "
            f"a twentieth of the run to that over the next, Σ‖z‖ grows by t^{SLOW:g} or less"
        )

    def judge(self, stored: Stored) -> Finding:
        """Judge every run. They must agree."""
        found = _growths(stored)
        if not found:
            return Finding("not run yet", "no run of Adam⁺ with enough epochs has finished")
        holds = [one.flattens and (not self.where or abs(one.part - KNEE) <= KNEE_WIDTH) for one in found]
        verdict: Verdict = "reproduced" if all(holds) else "open" if any(holds) else "not reproduced"
        return Finding(verdict, "; ".join(map(_growth_text, found)), len(found))


@dataclass(frozen=True)
class FarFromIdeal:
    """At the epoch where Σ‖z‖ flattens, accuracies are still far from their last values."""

    @property
    def text(self) -> str:
        """The rule as text."""
        return (
            f"train and test accuracy of Adam⁺ at 154/350 of the run are {FAR:g} or more below those of the end; open "
            "where Σ‖z‖ has no plateau"
        )

    def judge(self, stored: Stored) -> Finding:
        """Judge the means over seeds."""
        panels = stored.experiment.panels
        runs = [run for run in _finished(stored) if all(panel.column in run.epochs[-1] for panel in panels.values())]
        if not runs:
            return Finding("not run yet", "no run of Adam⁺ has finished")
        at = max(0, round(KNEE * len(runs[0].epochs)) - 1)
        texts, below = [], []
        for name, panel in panels.items():
            then = summarize(float(run.epochs[at][panel.column]) for run in runs).mean or 0.0
            end = summarize(run.last(panel.column) for run in runs).mean or 0.0
            below.append(end - then >= FAR)
            texts.append(f"{name}: {number(then)} after epoch {at + 1}, {number(end)} at the end")
        if not (growths := _growths(stored)):
            return Finding("not run yet", "no run of Adam⁺ with enough epochs has finished")
        if not all(found.flattens for found in growths):
            return Finding("open", f"no plateau; {'; '.join(texts)}")
        return Finding("reproduced" if all(below) else "not reproduced", "; ".join(texts), len(runs))


def _finished(stored: Stored) -> list[StoredRun]:
    one = stored.contenders.get("adam-plus")
    return one.ended("finished") if one is not None else []


def _growths(stored: Stored) -> list[Growth]:
    return [found for run in _finished(stored) if (found := growth(run.epochs)) is not None]


def _growth_text(found: Growth) -> str:
    where = f"at iteration {found.knee:,.0f} ({found.part:.0%} of the run)"
    return (
        f"{'flattens' if found.flattens else 'no plateau; growth falls most'} {where}; "
        f"Σ‖z‖ ∝ t^{found.exponent:.2f}, from there on t^{found.later:.2f}"
    )
