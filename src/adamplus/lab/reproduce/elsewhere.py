"""Rules about claims that no run of an experiment decides: a model's size, and measurements beside the reproduction."""

import csv
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from .._present import strictly_better, student
from ..models import AcousticModel
from .findings import Finding

VARIANCE = Path("theory", "variance.json")
"""The report of `adamplus theory variance`, beside the folder of the reproduction."""
DEFAULTS = Path("defaults", "runs.jsonl")
"""The runs of `benchmarks/defaults.py`, beside the folder of the reproduction."""
VARIANTS = Path("lab", "variants", "table.csv")
"""The table of a comparison of Adam with AMSGrad, beside the folder of the reproduction."""


class Elsewhere(Protocol):
    """A rule that judges a claim by other facts than the runs of its experiments."""

    @property
    def text(self) -> str:
        """The rule as text."""
        ...

    def judge(self, out: Path) -> Finding:
        """Judge the claim; `out` is the folder of the reproduction."""
        ...


@dataclass(frozen=True)
class SpeechModelSize:
    """The size of the model for SWB-300."""

    features: int = 260
    states: int = 32_000

    @property
    def text(self) -> str:
        """The rule as text."""
        return "the model for SWB-300 has more than 43 million parameters, and 165 MB in float32 (1 MB is 2²⁰ bytes)"

    def judge(self, out: Path) -> Finding:
        """Count the parameters of a model without memory."""
        del out
        with torch.device("meta"):
            model = AcousticModel(self.features, self.states)
        count = sum(p.numel() for p in model.parameters())
        size = 4 * count / 2**20
        holds = count > 43e6 and round(size) == 165
        return Finding("reproduced" if holds else "not reproduced", f"{count:,} parameters, {size:.1f} MB")


@dataclass(frozen=True)
class VarianceFalls:
    """The error of z becomes smaller than averaging alone would make it, while the noise of gradients stays."""

    share: float = 0.9

    @property
    def text(self) -> str:
        """The rule as text."""
        return (
            "on the double well, whose gradients stay as noisy as they are, and with a constant β, ‖z − ∇F(w)‖² over "
            f"the last tenth of the steps is less than {self.share:g} β/(2 − β) of ‖g − ∇F(ŵ)‖². Averaging alone gives "
            "β/(2 − β) of it"
        )

    def judge(self, out: Path) -> Finding:
        """Judge the stored report of `adamplus theory variance`."""
        report: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            report = json.loads((out.absolute().parent / VARIANCE).read_text(encoding="utf-8"))
        if not report:
            return Finding(
                "not run yet", f"no {VARIANCE.as_posix()} beside this folder: run `adamplus theory variance`"
            )
        beta = float(report["settings"]["beta"])
        series = report["places"]["double-well"]["extrapolated"]
        first, last = ([_mean(series, name, late) for name in ("z_error2", "g_error2")] for late in (False, True))
        ratio, alone = last[0] / last[1], beta / (2 - beta)
        measured = (
            f"‖z − ∇F(w)‖² {first[0]:.3g} over the first tenth and {last[0]:.3g} over the last, ‖g − ∇F(ŵ)‖² "
            f"{first[1]:.3g} and {last[1]:.3g}; at last {ratio:.3g} of it, where β/(2 − β) is {alone:.3g}"
        )
        return Finding("reproduced" if ratio < self.share * alone else "not reproduced", measured)


@dataclass(frozen=True)
class NoMeasure:
    """A sentence from which no measurement follows."""

    reason: str

    @property
    def text(self) -> str:
        """The rule as text."""
        return f"none is possible: {self.reason}"

    def judge(self, out: Path) -> Finding:
        """Return the verdict that there is nothing to measure."""
        del out
        return Finding("no measure", "")


@dataclass(frozen=True)
class VariantBehind:
    """AMSGrad, a variant of Adam with a proof, is behind Adam if both are tuned alike."""

    @property
    def text(self) -> str:
        """The rule as text."""
        return (
            "tuned alike by `adamplus compare`, the 95 % interval of AMSGrad's test metric is behind Adam's on every "
            "task of results/lab/variants; refuted if it is behind on none"
        )

    def judge(self, out: Path) -> Finding:
        """Judge the stored table."""
        path = out.absolute().parent / VARIANTS
        try:
            lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        except OSError:
            return Finding(
                "not run yet", f"no {VARIANTS.as_posix()} beside this folder: run the command of lab/README.md"
            )
        by_task: dict[str, dict[str, dict[str, str]]] = {}
        for line in lines:
            by_task.setdefault(line["task"], {})[line["optimizer"]] = line
        texts, behind = [], []
        for task, found in by_task.items():
            adam, variant = found["adam"], found["amsgrad"]
            intervals = [(float(one["interval_low"]), float(one["interval_high"])) for one in (adam, variant)]
            behind.append(strictly_better(*intervals, higher=adam["better"] == "higher"))
            values = " and ".join(f"{float(one['mean']):.4g} (n = {one['n']})" for one in (variant, adam))
            texts.append(f"{task}, {adam['metric']}: {values}")
        verdict = "reproduced" if all(behind) else "open" if any(behind) else "not reproduced"
        seeds = min(int(line["n"]) for line in lines)
        return Finding(verdict, f"AMSGrad and Adam on {'; '.join(texts)}", seeds)


@dataclass(frozen=True)
class DefaultsAsGood:
    """The default settings of Algorithm 1 lose no more than Adam's, if nothing is tuned."""

    lr: float = 0.1
    beta: float = 0.1

    @property
    def text(self) -> str:
        """The rule as text."""
        return (
            f"on the tasks of results/defaults, none of them the paper's, Adam⁺ with α = {self.lr:g} and "
            f"β = {self.beta:g} (the caption of Algorithm 1) misses no larger part of the possible improvement than "
            "Adam with its usual rate of 0.001. It is open if the 95 % interval of the mean difference (Student's t "
            "over tasks) contains 0"
        )

    def judge(self, out: Path) -> Finding:
        """Judge the stored runs."""
        path = out.absolute().parent / DEFAULTS
        try:
            runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except OSError:
            return Finding("not run yet", f"no {DEFAULTS.as_posix()} beside this folder: run benchmarks/defaults.py")
        own, adam = [], []
        for task in dict.fromkeys(run["task"] for run in runs):
            missed = _missed([run for run in runs if run["task"] == task])
            own.append(missed["adam-plus", "lr", self.lr, self.beta])
            adam.append(next(value for (optimizer, *_), value in missed.items() if optimizer == "adam"))
        difference = np.subtract(own, adam)
        half = student(len(own) - 1) * float(difference.std(ddof=1)) / math.sqrt(len(own))
        low, high = difference.mean() - half, difference.mean() + half
        verdict = "not reproduced" if low > 0 else "reproduced" if high <= 0 else "open"
        text = (
            f"missed: Adam⁺ {np.mean(own):.3f}, Adam {np.mean(adam):.3f}; difference {difference.mean():.2f} ± "
            f"{half:.2f} over {len(own)} tasks"
        )
        return Finding(verdict, text)


def _missed(runs: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], float]:
    """The part of the possible improvement on one task that each setting misses; the best one of Adam⁺ misses 0."""

    def score(run: dict[str, Any], value: float | None) -> float:
        if value is None or not math.isfinite(value):
            return -math.inf
        value = math.log(value) if run["metric"] == "perplexity" else value
        return value if run["better"] == "higher" else -value

    start = float(np.mean([score(run, run["start"]) for run in runs]))
    scores: dict[tuple[Any, ...], list[float]] = {}
    for run in runs:
        setting = run["optimizer"], run["unit"], run["rate"], run["beta"]
        scores.setdefault(setting, []).append(max(score(run, run["value"]), start))
    means = {setting: float(np.mean(values)) for setting, values in scores.items()}
    best = max(mean for (optimizer, *_), mean in means.items() if optimizer in ("adam-plus", "nadam-plus"))
    return {setting: (best - mean) / (best - start) for setting, mean in means.items()}


def _mean(series: dict[str, Sequence[float]], name: str, late: bool) -> float:
    """Mean over the first or the last tenth of the steps, which are measured at intervals that grow."""
    steps = np.array(series["steps"], dtype=float)
    inside = steps >= 0.9 * steps[-1] if late else steps <= 0.1 * steps[-1]
    return float(np.average(np.array(series[name])[inside], weights=np.gradient(steps)[inside]))
