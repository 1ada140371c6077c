"""Slopes of log evaluations against log 1/ε, with intervals for the choice of runs, of settings, and lack of fit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .._present import student

LEAST = 4
"""Fewest ε for an interval: with three, one degree of freedom is left, and t is 12.7."""


@dataclass(frozen=True)
class Slope:
    """A measured exponent of 1/ε.

    The interval is value ± t · √(V + s²/Sxx), with the t of J − 2 degrees of freedom at 95 %:

    - V is the variance of the slope by the bootstrap of the evaluations, which draws runs and chooses settings again.
      Different ε have different random numbers, so V = Σ_j ((x_j − x̄)/Sxx)² v_j with the variance v_j of log
      evaluations.
    - s² is the variance of the residuals of the fit. It contains the steps of the grid of settings and curvature.

    Residuals contain noise of the runs too, so the interval is wide rather than narrow.
    """

    value: float
    low: float
    high: float
    points: int
    """Number of ε that were reached."""

    @property
    def half(self) -> float:
        """Half of the length of the interval; infinite without an interval."""
        return (self.high - self.low) / 2

    def differs_from(self, other: "Slope") -> bool:
        """Whether the difference of two slopes is resolved at 95 %."""
        return abs(self.value - other.value) > math.hypot(self.half, other.half)


def slope(epsilons: Sequence[float], evaluations: Sequence[float], spreads: Sequence[float]) -> Slope | None:
    """Slope over the given ε. Fewer than `LEAST` have an infinite interval, fewer than two no slope.

    Args:
        epsilons: the ε that were reached.
        evaluations: evaluations for each of them.
        spreads: standard deviations of log evaluations by the bootstrap.
    """
    if len(epsilons) < 2:
        return None
    x, y = np.log(1 / np.asarray(epsilons)), np.log(np.asarray(evaluations))
    centred = x - x.mean()
    total = float((centred**2).sum())
    value = float(centred @ y) / total
    if len(x) < LEAST:
        return Slope(value, -math.inf, math.inf, len(x))
    residuals = y - y.mean() - value * centred
    lack = float((residuals**2).sum()) / (len(x) - 2) / total
    drawn = float(((centred / total) ** 2 * np.asarray(spreads) ** 2).sum())
    half = student(len(x) - 2) * math.sqrt(drawn + lack)
    return Slope(value, value - half, value + half, len(x))


def two_point_slopes(epsilons: Sequence[float], evaluations: Sequence[float | None]) -> list[float | None]:
    """Slopes between neighbouring ε; None where one of the two was not reached."""
    known = list(zip(epsilons, evaluations, strict=True))
    return [None if n is None or m is None else math.log(m / n) / math.log(e / f) for (e, n), (f, m) in pairwise(known)]
