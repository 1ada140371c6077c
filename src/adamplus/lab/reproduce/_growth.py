"""How Σ‖z‖ grows: where it flattens, and by which power of the iterations."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Growth(NamedTuple):
    """What a run's Σ‖z‖ does."""

    exponent: float
    """γ of Σ‖z‖ ∝ t^γ, over the whole run."""
    later: float
    """The same, after the knee."""
    knee: float
    """The iteration at which two straight lines that fit best meet in time."""
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


def growth(epochs: Sequence[dict[str, Any]]) -> Growth | None:
    """Of a run's metrics; None where there are too few epochs for two lines."""
    points = [(line["step"], line["norm_sum"]) for line in epochs if "norm_sum" in line]
    if len(points) < 6:
        return None
    t, total = np.array(points, dtype=float).T
    # two lines, each of at least three points; the last point of the first is where growth changes
    fits = []
    for i in range(3, len(t) - 2):
        (one, first), (other, second) = _line(t[:i], total[:i]), _line(t[i:], total[i:])
        fits.append((first + second, i, one, other))
    _, i, before, after = min(fits)
    return Growth(_power(t, total), _power(t[i:], total[i:]), float(t[i - 1]), float(t[i - 1] / t[-1]), before, after)


def _line(t: np.ndarray, total: np.ndarray) -> tuple[float, float]:
    """Slope and squared error of the line that fits best."""
    centred, values = t - t.mean(), total - total.mean()
    slope = float(centred @ values / (centred @ centred))
    return slope, float(((values - slope * centred) ** 2).sum())


def _power(t: np.ndarray, total: np.ndarray) -> float:
    return _line(np.log(t), np.log(np.maximum(total, 1e-300)))[0]
