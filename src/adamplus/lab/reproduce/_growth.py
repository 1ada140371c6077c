"""How Σ‖z‖ grows: whether and where it flattens, and by which power of the iterations."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

SLOW = 0.25
"""A plateau grows by at most this part of what was before it."""
FEWEST = 3
"""Epochs on either side of the knee."""


class Growth(NamedTuple):
    """What a run's Σ‖z‖ does."""

    exponent: float
    """γ of Σ‖z‖ ∝ t^γ, over the whole run."""
    later: float
    """The same, after the knee."""
    knee: float
    """The iteration at which the broken line that fits best breaks; a straight line breaks anywhere."""
    part: float
    """Of the run that lies before the knee."""
    before: float
    """Growth an iteration, before the knee."""
    after: float
    """And after it."""

    @property
    def slowed(self) -> float:
        """Growth after the knee over growth before it."""
        return self.after / self.before if self.before else float("inf")

    @property
    def flattens(self) -> bool:
        """Whether what comes after the knee is a plateau; else the knee means nothing."""
        return self.slowed <= SLOW


def growth(epochs: Sequence[dict[str, Any]]) -> Growth | None:
    """Of a run's metrics; None where there are too few epochs for a line with a knee."""
    points = [(line["step"], line["norm_sum"]) for line in epochs if "norm_sum" in line]
    if len(points) < 2 * FEWEST:
        return None
    t, total = np.array(points, dtype=float).T
    time = t / t[-1]
    fits = [(*_broken(time, total, i), i) for i in range(FEWEST - 1, len(t) - FEWEST)]
    _, before, after, i = min(fits)
    knee = float(t[i])
    return Growth(_power(t, total), _power(t[i:], total[i:]), knee, knee / t[-1], before / t[-1], after / t[-1])


def _broken(time: np.ndarray, total: np.ndarray, i: int) -> tuple[float, float, float]:
    """Of the line that breaks at point i and is continuous, as a sum is: squared error, and both slopes."""
    columns = np.stack([np.ones_like(time), time, np.maximum(time - time[i], 0)], 1)
    found = np.linalg.lstsq(columns, total)[0]
    left = total - columns @ found
    return float(left @ left), float(found[1]), float(found[1] + found[2])


def _power(t: np.ndarray, total: np.ndarray) -> float:
    return float(np.polyfit(np.log(t), np.log(np.maximum(total, 1e-300)), 1)[0])
