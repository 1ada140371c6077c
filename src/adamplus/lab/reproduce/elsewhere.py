"""Rules about claims that no run of an experiment decides: a model's size, and measurements of `adamplus theory`."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from ..models import AcousticModel
from .findings import Finding

VARIANCE = Path("theory", "variance.json")
"""The report of `adamplus theory variance`, beside the folder of the reproduction."""


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


def _mean(series: dict[str, Sequence[float]], name: str, late: bool) -> float:
    """Mean over the first or the last tenth of the steps, which are measured at intervals that grow."""
    steps = np.array(series["steps"], dtype=float)
    inside = steps >= 0.9 * steps[-1] if late else steps <= 0.1 * steps[-1]
    return float(np.average(np.array(series[name])[inside], weights=np.gradient(steps)[inside]))
