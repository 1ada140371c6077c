"""Rules that compare stored runs with a claim."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from .._present import Summary, number, plus_minus, strictly_better, summarize, with_losses
from ..report import StoredRun
from .experiments import NAMES, Experiment
from .growth import SLOW, Growth, growth
from .stored_runs import ContenderRuns, Stored

Verdict = Literal["reproduced", "not reproduced", "open", "cannot be run", "not run yet"]
SEVERITY: tuple[Verdict, ...] = ("not reproduced", "open", "not run yet", "cannot be run", "reproduced")
"""The verdict of a claim with several rules is the first of these that a rule gives."""
Relation = Literal["better than", "comparable to", "worse than", "no worse than"]
When = Literal["end", "early", "whole"]
WHEN: dict[When, str] = {
    "end": "after the last epoch",
    "early": "as a mean over the first 3/7 of the epochs",
    "whole": "as a mean over all epochs",
}
PARTS: dict[When, float | None] = {"end": None, "early": 3 / 7, "whole": 1.0}
"""The part of a run that counts. Its early stage ends at the first drop of the rate, after 150 epochs of 350."""
DEFAULTS = {"lr": 0.1, "beta": 0.1}
"""α and β in the caption of Algorithm 1."""
KNEE, KNEE_WIDTH = 154 / 350, 0.05
FAR = 0.01
"""Accuracies that differ by at least this are far from each other."""


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


@dataclass(frozen=True)
class Versus:
    """One optimizer compared with others, by a panel of the figure."""

    panel: Literal["train", "test"]
    relation: Relation
    rivals: tuple[str, ...]
    hero: str = "adam-plus"
    when: When = "end"
    least_seeds: int = 1
    """The seeds that each optimizer needs before the relation can be called reproduced."""

    @property
    def text(self) -> str:
        """The rule as text."""
        rivals = ", ".join(NAMES[name] for name in self.rivals)
        seeds = f", with {self.least_seeds} seeds or more" if self.least_seeds > 1 else ""
        return f"{self.panel} metric, {WHEN[self.when]}: {NAMES[self.hero]} {self.relation} {rivals}{seeds}"

    def judge(self, stored: Stored) -> Finding:
        """Judge the relation to each of the others. It must hold for all of them, by each measurement of training."""
        column, other = stored.experiment.panels[self.panel].column, stored.experiment.other_train
        columns = {column: ""}
        if self.panel == "train" and other is not None:
            columns = {column: " without dropout", other.column: " with dropout"}
        measurements = [self._places(stored, column) for column in columns]
        findings = [_agreed([self._verdict(stored, found, rival) for found in measurements]) for rival in self.rivals]
        texts = [self._text(found, how) for found, how in zip(measurements, columns.values(), strict=True)]
        tried = {name: place.tried for name, place in measurements[0].items()}
        if len(set(tried.values())) > 1 and tried != {name: stored.experiment.settings[name].points for name in tried}:
            findings = [one if one.verdict == "not run yet" else one._replace(verdict="open") for one in findings]
            texts += ["some have had more of the paper's settings than others"]
        texts += [one.measured for one in findings if one.measured]
        found = together(findings)
        if found.verdict == "reproduced" and (found.seeds or 0) < self.least_seeds:
            found = found._replace(verdict="open")
            texts += [f"{self.least_seeds} seeds are needed"]
        return found._replace(measured="; ".join(texts))

    def _places(self, stored: Stored, column: str) -> dict[str, Standing]:
        """The results of those that have ended."""
        wanted = {name: stored.contenders.get(name) for name in (self.hero, *self.rivals)}
        places = {name: standing(one, column, PARTS[self.when]) for name, one in wanted.items() if one}
        return {name: place for name, place in places.items() if place is not None}

    def _verdict(self, stored: Stored, found: Mapping[str, Standing], rival: str) -> Finding:
        if self.hero not in found or rival not in found:
            return Finding("not run yet", "")
        own, other = found[self.hero], found[rival]
        return Finding(
            verdict_on(self.relation, own, other, Scale.of(stored.experiment)), "", min(own.seeds, other.seeds)
        )

    def _text(self, found: Mapping[str, Standing], how: str) -> str:
        """The results as text."""
        when = {"end": "", "early": " early", "whole": ", mean over the run"}[self.when]
        numbers = ", ".join(f"{NAMES[name]} {place.text()}" for name, place in found.items())
        missing = [NAMES[name] for name in (self.hero, *self.rivals) if name not in found]
        texts = [f"{self.panel}{when}{how}: {numbers}"] if found else []
        texts += [f"no run of {', '.join(missing)} has ended"] if missing else []
        return "; ".join(texts)


def _agreed(findings: Sequence[Finding]) -> Finding:
    """The finding on one rival by several measurements. It is open if they contradict each other."""
    found = together(findings)
    if {finding.verdict for finding in findings} == {"reproduced", "not reproduced"}:
        return Finding("open", "the measurements of training disagree", found.seeds)
    return found


@dataclass(frozen=True)
class BestOfGrid:
    """A value that the paper calls the best of its grid."""

    optimizer: str
    key: str

    @property
    def text(self) -> str:
        """The rule as text."""
        return (
            f"{NAMES[self.optimizer]}: no other {self.key} of the paper's grid is better than the one that the paper "
            "calls best, by validation data if there is any, else by test data"
        )

    def judge(self, stored: Stored) -> Finding:
        """Compare the best run of each value."""
        own = stored.experiment.settings[self.optimizer]
        values, claimed = [float(value) for value in own.values(self.key)], float(own.named[self.key])
        needed = own.points // len(values)
        best: dict[float, Standing] = {}
        complete = []
        for value in values:
            found = sorted(_places(stored, self.optimizer, {self.key: value}), key=_rank(stored.experiment))
            if found:
                best[value] = found[0]
            if len(found) == needed:
                complete.append(value)
        numbers = ", ".join(f"{self.key}={value:g} {place.text()}" for value, place in best.items())
        if not best:
            return Finding("not run yet", f"no run of {NAMES[self.optimizer]} has ended")
        numbers = f"{NAMES[self.optimizer]}: {numbers}"
        verdicts: list[Finding] = []
        if claimed in complete:
            for place in best.values():
                verdict = verdict_on("no worse than", best[claimed], place, Scale.of(stored.experiment))
                verdicts.append(Finding(verdict, "", min(best[claimed].seeds, place.seeds)))
        if len(complete) < len(values):
            verdicts.append(Finding("not run yet", ""))
            numbers += f"; {len(complete)} of {len(values)} values of {self.key} have all their runs"
        return together(verdicts)._replace(measured=numbers)


@dataclass(frozen=True)
class GoodDefaults:
    """The default settings of Algorithm 1's caption."""

    @property
    def text(self) -> str:
        """The rule as text."""
        settings = " and ".join(f"{key} {value:g}" for key, value in DEFAULTS.items())
        return f"Adam⁺ with {settings} is no worse than with any other of its settings that were run"

    def judge(self, stored: Stored) -> Finding:
        """Compare the run with default settings with each other run of Adam⁺."""
        every = {place.label: place for place in _places(stored, "adam-plus", {})}
        default = next(iter(_places(stored, "adam-plus", DEFAULTS)), None)
        others = [place for label, place in every.items() if default is None or label != default.label]
        if default is None or not others:
            missing = "with the default settings" if default is None else "with other settings"
            return Finding("not run yet", f"no run of Adam⁺ {missing} has ended")
        texts = [f"{place.label.partition(':')[2]}: {place.text()}" for place in every.values()]
        scale = Scale.of(stored.experiment)
        findings = [
            Finding(verdict_on("no worse than", default, other, scale), "", min(default.seeds, other.seeds))
            for other in others
        ]
        return together(findings)._replace(measured="; ".join(texts))


@dataclass(frozen=True)
class SmallerGap:
    """The difference between training and test after the last epoch is smaller for Adam⁺ than for another."""

    rival: str

    @property
    def text(self) -> str:
        """The rule as text."""
        return (
            "after the last epoch, the gap between training and test (a difference of accuracies, a ratio of "
            f"perplexities) is smaller for Adam⁺ than for {NAMES[self.rival]}"
        )

    def judge(self, stored: Stored) -> Finding:
        """Compare the gaps, run by run."""
        higher, margin = stored.experiment.higher, stored.experiment.margin
        train, test = (stored.experiment.panels[name].column for name in ("train", "test"))
        found: dict[str, Standing] = {}
        for name in ("adam-plus", self.rival):
            one = stored.contenders.get(name)
            ends = [(run.last(train), run.last(test)) for run in one.ended("finished")] if one else []
            gaps = [a - b if higher else b / a for a, b in ends if a is not None and b is not None]
            if one is not None and gaps:
                found[name] = Standing(summarize(gaps), 0, one.tried, one.label)
        numbers = ", ".join(f"{NAMES[name]} {place.text()}" for name, place in found.items())
        if missing := [NAMES[name] for name in ("adam-plus", self.rival) if name not in found]:
            return Finding(
                "not run yet", "; ".join(filter(None, [numbers, f"no run of {', '.join(missing)} has ended"]))
            )
        own, other = found["adam-plus"], found[self.rival]
        verdict = verdict_on("better than", own, other, Scale(higher=False, margin=margin, relative=not higher))
        return Finding(verdict, f"gap: {numbers}", min(own.seeds, other.seeds))


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
    return Standing(values, lost, one.tried, one.label) if values.n or (lost and not one.ended("finished")) else None


def _places(stored: Stored, optimizer: str, settings: Mapping[str, float]) -> list[Standing]:
    """Results of an optimizer with these settings, by validation data if there is any, else by test data."""
    one = stored.contenders.get(optimizer)
    test = stored.experiment.panels["test"].column
    found = []
    for each in (one, *one.rest) if one is not None else ():
        own = each.runs[0].spec["settings"]
        if all(key in own and math.isclose(own[key], value) for key, value in settings.items()):
            places = (standing(each, column) for column in (test.replace("test_", "validation_"), test))
            found += [place._replace(tried=1) for place in places if place is not None][:1]
    return found


def _rank(experiment: Experiment) -> Callable[[Standing], float]:
    """A key that sorts results, the best first."""

    def rank(place: Standing) -> float:
        if place.mean is None:
            return math.inf
        return -place.mean if experiment.higher else place.mean

    return rank
