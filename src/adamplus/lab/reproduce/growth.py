"""Growth of Σ‖z‖: whether and where it flattens, and by which power of the iterations it grows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

SLOW = 0.25
"""A plateau grows by at most this power of the iterations."""
FEWEST, PART = 3, 20
"""Growth before and after the knee is measured over a twentieth of all epochs, and over at least this many."""


class Growth(NamedTuple):
    """The growth of a run's Σ‖z‖."""

    exponent: float
    """γ of Σ‖z‖ ∝ t^γ, over the whole run."""
    later: float
    """γ of Σ‖z‖ ∝ t^γ, after the knee."""
    knee: float
    """The iteration at which growth falls by the largest factor. If it falls evenly, that may be any iteration."""
    part: float
    """The fraction of the run before the knee."""

    @property
    def flattens(self) -> bool:
        """Whether there is a plateau after the knee. If not, the knee means nothing."""
        return self.later <= SLOW


def growth(epochs: Sequence[dict[str, Any]]) -> Growth | None:
    """Growth in a run's metrics; None if there are too few epochs for a knee."""
    points = [(line["step"], line["norm_sum"]) for line in epochs if "norm_sum" in line]
    if len(points) < 2 * FEWEST:
        return None
    t, total = np.array(points, dtype=float).T
    width = max(FEWEST, len(t) // PART)
    ends = np.arange(width, len(t) - width + 1)  # the number of epochs before the knee
    t0, total0 = np.insert(t, 0, 0), np.insert(total, 0, 0)
    before, after = (
        (total0[ends + last] - total0[ends + first]) / (t0[ends + last] - t0[ends + first])
        for first, last in ((-width, 0), (0, width))
    )
    i = int(ends[np.argmax(_log(before) - _log(after))]) - 1
    return Growth(_power(t, total), _power(t[i:], total[i:]), float(t[i]), float(t[i] / t[-1]))


def _power(t: np.ndarray, total: np.ndarray) -> float:
    return float(np.polyfit(np.log(t), _log(total), 1)[0])


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, 1e-300))
