"""Rules that compare stored runs with a claim: optimizers, settings, and gaps between training and test."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .._present import plus_minus, summarize
from .experiments import NAMES, Experiment
from .findings import Finding, Relation, Rule, Scale, Standing, standing, together, verdict_on
from .stored_runs import Stored

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
class Needs:
    """What an explanation needs. Runs that lack it refute the explanation; runs that have it show no cause."""

    rules: tuple[Rule, ...]

    @property
    def text(self) -> str:
        """The rule as text."""
        needed = "; and ".join(rule.text for rule in self.rules)
        return f"it needs both: {needed}. Runs that lack one refute it; no run shows that one causes the other"

    def judge(self, stored: Stored) -> Finding:
        """Judge what is needed."""
        found = together(rule.judge(stored) for rule in self.rules)
        return found._replace(verdict="open") if found.verdict == "reproduced" else found


@dataclass(frozen=True)
class TrainingTime:
    """The training time of a run of Adam⁺ on a certain device."""

    hours: float
    device: str
    tolerance: float = 0.1
    """Part by which "about" may differ."""

    @property
    def text(self) -> str:
        """The rule as text."""
        return (
            f"runs of Adam⁺ on one {self.device} (no other device says anything) take {self.hours:g} hours in the "
            f"mean, give or take {self.tolerance:.0%}"
        )

    def judge(self, stored: Stored) -> Finding:
        """Judge the mean over seeds."""
        runs = stored.contenders["adam-plus"].ended("finished") if "adam-plus" in stored.contenders else []
        there = [run for run in runs if self.device in str(run.settings.get("hardware", ""))]
        if not there:
            return Finding("not run yet", f"no run of Adam⁺ on a {self.device} has finished")
        took = summarize(run.end["seconds"] / 3600 for run in there)
        holds = took.mean is not None and abs(took.mean - self.hours) <= self.tolerance * self.hours
        text = f"{plus_minus(took)} hours (n = {took.n})"
        return Finding("reproduced" if holds else "not reproduced", text, took.n)


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
