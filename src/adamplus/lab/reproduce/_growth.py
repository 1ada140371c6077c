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
    """The iteration at which the curve that fits best has its kink; a smooth curve has it anywhere."""
    part: float
    """Of the run that lies before the knee."""
    before: float
    """Growth an iteration, as a mean over what is before the knee."""
    after: float
    """And after it."""

    @property
    def slowed(self) -> float:
        """Growth after the knee over growth before it."""
        return self.after / self.before if self.before > 0 else float("inf")

    @property
    def flattens(self) -> bool:
        """Whether what comes after the knee is a plateau; else the knee means nothing."""
        return self.slowed <= SLOW


def growth(epochs: Sequence[dict[str, Any]]) -> Growth | None:
    """Of a run's metrics; None where there are too few epochs for a curve with a knee."""
    points = [(line["step"], line["norm_sum"]) for line in epochs if "norm_sum" in line]
    if len(points) < 2 * FEWEST:
        return None
    t, total = np.array(points, dtype=float).T
    time = t / t[-1]
    fits = [(*_bent(time, total, i), i) for i in range(FEWEST - 1, len(t) - FEWEST)]
    _, before, after, i = min(fits)
    knee = float(t[i])
    return Growth(_power(t, total), _power(t[i:], total[i:]), knee, knee / t[-1], before / t[-1], after / t[-1])


def _bent(time: np.ndarray, total: np.ndarray, i: int) -> tuple[float, float, float]:
    """Of two parabolas that meet at point i, as a sum's parts do: squared error, and the mean slopes on both sides.

    Straight lines would put the kink where a curve bends most on the whole, and not near where its slope jumps.
    """
    beyond = np.maximum(time - time[i], 0)
    columns = np.stack([np.ones_like(time), time, time**2, beyond, beyond**2], 1)
    fitted = columns @ np.linalg.lstsq(columns, total)[0]
    left = total - fitted
    before, after = (np.diff(fitted[ends]) / np.diff(time[ends]) for ends in ([0, i], [i, -1]))
    return float(left @ left), float(before[0]), float(after[0])


def _power(t: np.ndarray, total: np.ndarray) -> float:
    return float(np.polyfit(np.log(t), np.log(np.maximum(total, 1e-300)), 1)[0])
