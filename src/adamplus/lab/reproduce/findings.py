"""Verdicts on claims: what a rule finds, the result of an optimizer, and whether a relation holds between two."""

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

from .._present import Summary, plus_minus, strictly_better, with_losses
from .experiments import Experiment
from .stored_runs import ContenderRuns, Stored

Verdict = Literal["reproduced", "not reproduced", "open", "cannot be run", "not run yet", "no measure"]
SEVERITY: tuple[Verdict, ...] = ("not reproduced", "open", "not run yet", "cannot be run", "reproduced")
"""The verdict of a claim with several rules is the first of these that a rule gives."""
Relation = Literal["better than", "comparable to", "worse than", "no worse than"]


class Finding(NamedTuple):
    """The verdict on a claim, and the measurements behind it."""

    verdict: Verdict
    measured: str
    seeds: int | None = None
    """The smallest number of seeds of an optimizer behind the verdict; None if seeds do not matter."""


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
    verdict: Verdict = next(each for each in SEVERITY if each in found)
    measured = "; ".join(finding.measured for finding in findings if finding.measured)
    # A claim is refuted by one rule, so only the seeds of such rules count.
    seeds = [one.seeds for one in findings if one.verdict == verdict and one.seeds is not None]
    return Finding(verdict, measured, min(seeds, default=None))


class Standing(NamedTuple):
    """The result of an optimizer, by the runs that finished."""

    values: Summary
    lost: int
    """The number of runs that diverged. Each is worse than any that finished."""
    tried: int = 1
    """The number of the paper's settings of which these are the best."""
    label: str = ""

    @property
    def seeds(self) -> int:
        """The number of runs that ended."""
        return self.values.n + self.lost

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


class Scale(NamedTuple):
    """How two results of a metric are compared."""

    higher: bool
    """Whether higher is better."""
    margin: float
    """Differences up to this one do not count."""
    relative: bool
    """Whether the margin is relative."""

    @classmethod
    def of(cls, experiment: Experiment) -> "Scale":
        """The scale of an experiment's metrics."""
        return cls(experiment.higher, experiment.margin, not experiment.higher)


def verdict_on(relation: Relation, own: Standing, other: Standing, scale: Scale) -> Verdict:
    """Whether a relation holds between two optimizers."""
    higher, margin, relative = scale
    worst = -math.inf if higher else math.inf
    a, b = (worst if one.mean is None else one.mean for one in (own, other))
    if math.isinf(a) and math.isinf(b):
        return "not reproduced"  # neither has trained at all
    if higher and min(a, b) >= 1 - margin and relation in ("better than", "worse than"):
        return "open"  # neither can be ahead by the margin
    ahead = (a > b) is higher
    apart = math.isinf(a) or math.isinf(b) or abs(a - b) > (margin * min(abs(a), abs(b)) if relative else margin)
    lost = bool(own.lost or other.lost)
    better, worse = (one.interval(higher) for one in ((own, other) if ahead else (other, own)))
    if apart and better is not None and worse is not None and not strictly_better(better, worse, higher):
        # The means differ, and so do the runs: unless the means contradict the claim, more seeds are needed.
        if relation == "no worse than" and ahead and not lost:
            return "reproduced"
        away = {"better than": not ahead, "worse than": ahead}.get(relation, False)
        return "not reproduced" if away and not lost else "open"
    if not apart and lost:
        return "open"
    found: Relation = "comparable to" if not apart else "better than" if ahead else "worse than"
    holds = found != "worse than" if relation == "no worse than" else found == relation
    return "reproduced" if holds else "not reproduced"


def standing(one: ContenderRuns, column: str, early: float | None = None) -> Standing | None:
    """The result after the last epoch, or as a mean over an early part; None if no run that has ended has it."""
    values = one.last(column) if early is None else one.early(column, early)
    lost = len(one.ended("diverged"))
    return Standing(values, lost, one.tried, one.label) if values.n or (lost and not one.ended("finished")) else None
