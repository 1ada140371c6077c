"""Rules that compare stored runs with a claim."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from .._present import Summary, number, plus_minus, strictly_better, summarize, with_losses
from ..report import StoredRun
from .experiments import NAMES
from .growth import SLOW, Growth, growth
from .stored_runs import ContenderRuns, Stored

Verdict = Literal["reproduced", "not reproduced", "open", "cannot be run", "not run yet"]
SEVERITY: tuple[Verdict, ...] = ("not reproduced", "open", "not run yet", "cannot be run", "reproduced")
"""The verdict of a claim with several rules is the first of these that a rule gives."""
Relation = Literal["better than", "comparable to", "worse than", "no worse than"]
EARLY = 3 / 7
"""The part of a run that is its early stage: up to the first drop of the rate, 150 epochs of 350."""
KNEE, KNEE_WIDTH = 154 / 350, 0.05
FAR = 0.01
"""Accuracies that differ by at least this are far from each other."""


class Finding(NamedTuple):
    """The verdict on a claim, and the measurements behind it."""

    verdict: Verdict
    measured: str


class Rule(Protocol):
    """A rule that judges an experiment's runs."""

    @property
    def text(self) -> str:
        """The rule as text."""
        ...

    def judge(self, stored: Stored) -> Finding:
        """Judge stored runs."""
        ...


def together(findings: Iterable[Finding]) -> Finding:
    """The finding on a claim that needs several."""
    findings = list(findings)
    found = {finding.verdict for finding in findings}
    return Finding(
        next(verdict for verdict in SEVERITY if verdict in found),
        "; ".join(finding.measured for finding in findings if finding.measured),
    )


class Standing(NamedTuple):
    """The result of an optimizer, by the runs that finished."""

    values: Summary
    lost: int
    """The number of runs that diverged. Each is worse than any that finished."""
    tried: int = 1
    """The number of the paper's settings of which these are the best."""

    @property
    def mean(self) -> float | None:
        """The mean over the finished runs; None if every run diverged."""
        return self.values.mean

    def interval(self, higher: bool) -> tuple[float, float] | None:
        """Confidence interval of the mean; None for a single run."""
        single = (self.mean, self.mean) if self.mean is not None and self.lost else None
        return with_losses(self.values.interval or single, self.lost, higher)

    def text(self) -> str:
        """The result as text."""
        lost = f"{self.lost} diverged"
        if self.mean is None:
            return lost if self.lost > 1 else "diverged"
        notes = [f"n = {self.values.n}", *[lost] * bool(self.lost), *[f"best of {self.tried}"] * (self.tried > 1)]
        return f"{plus_minus(self.values)} ({', '.join(notes)})"


@dataclass(frozen=True)
class Versus:
    """One optimizer compared with others, by a panel of the figure."""

    panel: Literal["train", "test"]
    relation: Relation
    rivals: tuple[str, ...]
    hero: str = "adam-plus"
    early: bool = False

    @property
    def text(self) -> str:
        """The rule as text."""
        when = "as a mean over the first 3/7 of the epochs" if self.early else "after the last epoch"
        rivals = ", ".join(NAMES[name] for name in self.rivals)
        return f"{self.panel} metric, {when}: {NAMES[self.hero]} {self.relation} {rivals}"

    def judge(self, stored: Stored) -> Finding:
        """Judge the relation to each of the others. It must hold for all of them."""
        column = stored.experiment.panels[self.panel].column
        wanted = {name: stored.contenders.get(name) for name in (self.hero, *self.rivals)}
        places = {name: standing(one, column, EARLY if self.early else None) for name, one in wanted.items() if one}
        found = {name: place for name, place in places.items() if place is not None}
        missing = [NAMES[name] for name in wanted if name not in found]
        verdicts: list[Verdict] = ["not run yet"] if missing else []
        if self.hero in found:
            rivals = [name for name in self.rivals if name in found]
            verdicts.extend(self._verdict(stored, found[self.hero], found[name]) for name in rivals)
        numbers = ", ".join(f"{NAMES[name]} {place.text()}" for name, place in found.items())
        texts = [f"{self.panel}{' early' if self.early else ''}: {numbers}"] if found else []
        texts += [f"no run of {', '.join(missing)} has ended"] if missing else []
        tried = {name: place.tried for name, place in found.items()}
        if len(set(tried.values())) > 1 and tried != {name: stored.experiment.settings[name].points for name in tried}:
            verdicts = [verdict if verdict == "not run yet" else "open" for verdict in verdicts]
            texts += ["some have had more of the paper's settings than others"]
        return together(Finding(verdict, "") for verdict in verdicts)._replace(measured="; ".join(texts))

    def _verdict(self, stored: Stored, own: Standing, other: Standing) -> Verdict:
        higher, margin = stored.experiment.higher, stored.experiment.margin
        worst = -math.inf if higher else math.inf
        a, b = (worst if one.mean is None else one.mean for one in (own, other))
        if math.isinf(a) and math.isinf(b):
            return "not reproduced"  # neither has trained at all
        if higher and min(a, b) >= 1 - margin and self.relation in ("better than", "worse than"):
            return "open"  # neither can be ahead by the margin
        ahead = (a > b) is higher
        apart = math.isinf(a) or math.isinf(b) or abs(a - b) > (margin if higher else margin * min(abs(a), abs(b)))
        lost = bool(own.lost or other.lost)
        better, worse = (one.interval(higher) for one in ((own, other) if ahead else (other, own)))
        if apart and better is not None and worse is not None and not strictly_better(better, worse, higher):
            # The means differ, and so do the runs: unless the means contradict the claim, more seeds are needed.
            if self.relation == "no worse than" and ahead and not lost:
                return "reproduced"
            away = {"better than": not ahead, "worse than": ahead}.get(self.relation, False)
            return "not reproduced" if away and not lost else "open"
        if not apart and lost:
            return "open"
        found: Relation = "comparable to" if not apart else "better than" if ahead else "worse than"
        holds = found != "worse than" if self.relation == "no worse than" else found == self.relation
        return "reproduced" if holds else "not reproduced"


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
        return Finding(verdict, "; ".join(map(_growth_text, found)))


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
        return Finding("reproduced" if all(below) else "not reproduced", "; ".join(texts))


@dataclass(frozen=True)
class Undecided:
    """A claim that runs of an experiment alone do not decide."""

    @property
    def text(self) -> str:
        """The rule as text."""
        return "none; runs of the paper's experiments do not decide it"

    def judge(self, stored: Stored) -> Finding:
        """Return the verdict open."""
        del stored
        return Finding("open", "")


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


def standing(one: ContenderRuns, column: str, early: float | None = None) -> Standing | None:
    """The result after the last epoch, or as a mean over an early part; None if no run that has ended has it."""
    values = one.last(column) if early is None else one.early(column, early)
    lost = len(one.ended("diverged"))
    return Standing(values, lost, one.tried) if values.n or (lost and not one.ended("finished")) else None
