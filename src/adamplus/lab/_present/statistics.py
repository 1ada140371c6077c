"""What can be said of a few numbers: mean, standard error, interval, ranks and sensitivity."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError

CONFIDENCE = 0.95
MARGIN = 0.05
"""How far from the best metric, relative to it, a learning rate still counts as good."""


@dataclass(frozen=True)
class Summary:
    """Some runs' values of one quantity."""

    n: int
    mean: float | None
    """None where there is no value."""
    error: float | None
    """Of the mean: the standard deviation over √n. None for fewer than two values."""
    interval: tuple[float, float] | None
    """Student's t, 95 %."""


def summarize(values: Iterable[float | None]) -> Summary:
    """Mean, standard error and interval of what there is."""
    found = [value for value in values if value is not None]
    n = len(found)
    if not found:
        return Summary(0, None, None, None)
    mean = statistics.fmean(found)
    if n == 1 or not math.isfinite(mean):
        return Summary(n, mean, None, None)
    error = statistics.stdev(found) / math.sqrt(n)
    reach = student(n - 1) * error
    return Summary(n, mean, error, (mean - reach, mean + reach))


def student(freedom: int) -> float:
    """How many standard errors the interval reaches to either side."""
    try:
        from scipy.special import stdtrit
    except ModuleNotFoundError as error:
        raise InputError(f"intervals need {error.name}, which is not installed: pip install 'adamplus[lab]'") from None
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def with_losses(interval: tuple[float, float] | None, lost: int, higher: bool) -> tuple[float, float] | None:
    """An interval of the runs that finished, without an end on the worse side where others were lost.

    A lost run is worse than any that finished: who lost some is not ahead of anybody, however good the others are.
    """
    if interval is None or not lost:
        return interval
    return (-math.inf, interval[1]) if higher else (interval[0], math.inf)


def ranks(intervals: Mapping[str, tuple[float, float] | None], higher: bool) -> dict[str, tuple[int, int]]:
    """The best and the worst place that each may have; none for those without an interval.

    Nobody is ahead of another unless its whole interval is.
    """
    known = {name: interval for name, interval in intervals.items() if interval is not None}
    if len(known) < 2:
        return {}
    ahead = {name: sum(strictly_better(other, own, higher) for other in known.values()) for name, own in known.items()}
    behind = {name: sum(strictly_better(own, other, higher) for other in known.values()) for name, own in known.items()}
    return {name: (1 + ahead[name], len(known) - behind[name]) for name in known}


def strictly_better(one: tuple[float, float], other: tuple[float, float], higher: bool) -> bool:
    """Whether all of one interval is better than all of the other."""
    return one[0] > other[1] if higher else one[1] < other[0]


@dataclass(frozen=True)
class Sensitivity:
    """How much the learning rate matters, by the trials of a search."""

    points: list[tuple[float, float | None]]
    """Learning rates, in order, and the metric on validation data; None where training diverged or failed."""
    low: float
    high: float
    """Around the best one, without a gap, the trials within the margin."""
    searched: float
    """The range that was searched, as a factor."""
    spacing: float
    """The factor from one trial to the next, on average: narrower ranges of good ones cannot be seen."""

    @property
    def factor(self) -> float:
        """The good range as a factor: 1 where only the best trial is in it."""
        return self.high / self.low


def sensitivity(
    trials: Sequence[tuple[float, float | None]], higher: bool, searched: tuple[float, float] | None = None
) -> Sensitivity | None:
    """Of (learning rate, metric) pairs; None where none of them has a metric."""
    best_of: dict[float, float | None] = {}
    for lr, value in trials:
        if not lr > 0:
            continue
        value = value if value is not None and math.isfinite(value) else None
        known = best_of.get(lr)
        if known is None or (value is not None and (value > known if higher else value < known)):
            best_of[lr] = value  # other settings may have been searched, too
    points = sorted(best_of.items())
    values = [(value, i) for i, (_, value) in enumerate(points) if value is not None]
    if not values:
        return None
    best, at = max(values) if higher else min(values)

    def good(value: float | None) -> bool:
        return value is not None and abs(value - best) <= MARGIN * abs(best)

    first = last = at
    while first > 0 and good(points[first - 1][1]):
        first -= 1
    while last + 1 < len(points) and good(points[last + 1][1]):
        last += 1
    low, high = searched or (points[0][0], points[-1][0])
    # a declared range is cut into as many parts as there are trials; otherwise they are its ends, too
    parts = len(points) if searched else max(1, len(points) - 1)
    factor = high / low
    return Sensitivity(points, points[first][0], points[last][0], factor, factor ** (1 / parts))
