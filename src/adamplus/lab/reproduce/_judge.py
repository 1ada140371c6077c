"""Rules that set stored runs beside a claim; each says itself what it looks at."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from ..report._statistics import Summary, strictly_better, summarize
from ..report._text import number, plus_minus
from ._experiments import NAMES
from ._growth import Growth, growth
from ._stored import Contestant, Stored

Outcome = Literal["reproduced", "not reproduced", "open", "cannot be run", "not run yet"]
SEVERITY: tuple[Outcome, ...] = ("not reproduced", "open", "cannot be run", "not run yet", "reproduced")
"""Of several outcomes that a claim needs all of, the first of these is the claim's."""
Relation = Literal["better than", "comparable to", "worse than", "no worse than"]
EARLY = 3 / 7
"""The part of a run that is its early stage: up to the first drop of the rate, 150 epochs of 350."""
KNEE, KNEE_WIDTH = 154 / 350, 0.05
SLOW = 0.25
"""A plateau grows by at most this part of what was before it."""
FAR = 0.01
"""An accuracy that is far from its end: by a percentage point or more."""


class Verdict(NamedTuple):
    """What runs say of a claim."""

    outcome: Outcome
    measured: str


class Rule(Protocol):
    """A way to judge an experiment's runs."""

    @property
    def text(self) -> str:
        """The rule in words."""
        ...

    def judge(self, stored: Stored) -> Verdict:
        """What the runs say."""
        ...


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Of a claim that needs all of them."""
    verdicts = list(verdicts)
    found = {verdict.outcome for verdict in verdicts}
    return Verdict(
        next(outcome for outcome in SEVERITY if outcome in found),
        "; ".join(verdict.measured for verdict in verdicts if verdict.measured),
    )


@dataclass(frozen=True)
class Versus:
    """One optimizer beside others, by a panel of the figure."""

    panel: Literal["train", "test"]
    relation: Relation
    rivals: tuple[str, ...]
    hero: str = "adam-plus"
    early: bool = False

    @property
    def text(self) -> str:
        """The rule in words."""
        when = "as a mean over the first 3/7 of the epochs" if self.early else "after the last epoch"
        rivals = ", ".join(NAMES[name] for name in self.rivals)
        return f"{self.panel} metric, {when}: {NAMES[self.hero]} {self.relation} {rivals}"

    def judge(self, stored: Stored) -> Verdict:
        """Every rival has to stand in the relation."""
        found = {
            name: self._summary(stored, stored.contestants[name])
            for name in (self.hero, *self.rivals)
            if _ended(stored.contestants.get(name))
        }
        rivals = [name for name in self.rivals if name in found]
        missing = [NAMES[name] for name in (self.hero, *self.rivals) if name not in found]
        outcomes: list[Outcome] = []
        if missing:
            outcomes.append("not run yet")
        if self.hero in found:
            outcomes.extend(self._outcome(stored, found[self.hero], found[name]) for name in rivals)
        numbers = ", ".join(_told(name, summary) for name, summary in found.items())
        said = [f"{self.panel}{' early' if self.early else ''}: {numbers}"] if found else []
        said += [f"no run of {', '.join(missing)} has ended"] if missing else []
        return together(Verdict(outcome, "") for outcome in outcomes)._replace(measured="; ".join(said))

    def _summary(self, stored: Stored, one: Contestant) -> Summary:
        """Where every run diverged, the worst that there is."""
        column = stored.experiment.panels[self.panel].column
        found = one.early(column, EARLY) if self.early else one.last(column)
        return found if found.n else summarize([-math.inf if stored.experiment.higher else math.inf])

    def _outcome(self, stored: Stored, own: Summary, other: Summary) -> Outcome:
        a, b = own.mean, other.mean
        assert a is not None
        assert b is not None
        if math.isinf(a) or math.isinf(b):
            apart, ahead = True, math.isfinite(a)
        else:
            higher, margin = stored.experiment.higher, stored.experiment.margin
            apart = abs(a - b) > (margin if higher else margin * min(abs(a), abs(b)))
            ahead = (a > b) is higher
            if apart and own.interval is not None and other.interval is not None:
                better, worse = (own.interval, other.interval) if ahead else (other.interval, own.interval)
                if not strictly_better(better, worse, higher):
                    # means that differ, in runs that differ as much: unless they point elsewhere, more are needed
                    if self.relation == "no worse than" and ahead:
                        return "reproduced"
                    away = {"better than": not ahead, "worse than": ahead}.get(self.relation, False)
                    return "not reproduced" if away else "open"
        found: Relation = "comparable to" if not apart else "better than" if ahead else "worse than"
        holds = found != "worse than" if self.relation == "no worse than" else found == self.relation
        return "reproduced" if holds else "not reproduced"


@dataclass(frozen=True)
class Flattens:
    """Σ‖z‖ reaches a plateau, and where."""

    where: bool
    """Whether the place is what is claimed; else that there is a plateau."""

    @property
    def text(self) -> str:
        """The rule in words."""
        lines = "of the two straight lines that fit Σ‖z‖ of Adam⁺ best,"
        if self.where:
            return f"{lines} the first ends at 154/350 of the run, give or take {KNEE_WIDTH:g} of it"
        return f"{lines} the second rises by at most {SLOW:g} of the first's slope"

    def judge(self, stored: Stored) -> Verdict:
        """By every run; they have to agree."""
        found = _growths(stored)
        if not found:
            return Verdict("not run yet", "no run of Adam⁺ with enough epochs has finished")
        holds = [abs(one.part - KNEE) <= KNEE_WIDTH if self.where else one.slowed <= SLOW for one in found]
        outcome: Outcome = "reproduced" if all(holds) else "open" if any(holds) else "not reproduced"
        return Verdict(outcome, "; ".join(map(_growth_text, found)))


@dataclass(frozen=True)
class FarFromIdeal:
    """Where Σ‖z‖ flattens, accuracies are still far from those of the end."""

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"train and test accuracy of Adam⁺ at 154/350 of the run are {FAR:g} or more below those of the end"

    def judge(self, stored: Stored) -> Verdict:
        """By the means over seeds."""
        one = stored.contestants.get("adam-plus")
        runs = one.ended("finished") if one is not None else []
        if not runs:
            return Verdict("not run yet", "no run of Adam⁺ has finished")
        at = max(0, round(KNEE * stored.epochs) - 1)
        said, below = [], []
        for name, panel in stored.experiment.panels.items():
            then = summarize(float(run.epochs[at][panel.column]) for run in runs).mean or 0.0
            end = summarize(run.last(panel.column) for run in runs).mean or 0.0
            below.append(end - then >= FAR)
            said.append(f"{name}: {number(then)} after epoch {at + 1}, {number(end)} at the end")
        return Verdict("reproduced" if all(below) else "not reproduced", "; ".join(said))


def _growths(stored: Stored) -> list[Growth]:
    one = stored.contestants.get("adam-plus")
    runs = one.ended("finished") if one is not None else []
    return [found for run in runs if (found := growth(run.epochs)) is not None]


def _growth_text(found: Growth) -> str:
    return (
        f"flattens at iteration {found.knee:,.0f} ({found.part:.0%} of the run); slope after over before: "
        f"{number(found.slowed, 3)}; Σ‖z‖ ∝ t^{found.exponent:.2f}, after the knee t^{found.later:.2f}"
    )


def _ended(one: Contestant | None) -> bool:
    return one is not None and bool(one.ended("finished") or one.ended("diverged"))


def _told(name: str, summary: Summary) -> str:
    if summary.mean is None or math.isinf(summary.mean):
        return f"{NAMES[name]} diverged"
    return f"{NAMES[name]} {plus_minus(summary)} (n = {summary.n})"
