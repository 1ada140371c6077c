"""Statistics of a few runs: mean, standard error, interval, ranks, and sensitivity to the learning rate."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError

CONFIDENCE = 0.95
MARGIN = 0.05
"""Largest distance from the best metric, relative to it, at which a learning rate still counts as good."""


@dataclass(frozen=True)
class Summary:
    """A quantity over several runs."""

    n: int
    mean: float | None
    """None if there is no value."""
    error: float | None
    """Standard error of the mean: the standard deviation over √n. None for fewer than two values."""
    interval: tuple[float, float] | None
    """95 % confidence interval by Student's t. None for fewer than two values."""


def summarize(values: Iterable[float | None]) -> Summary:
    """Mean, standard error and interval of the values that are not None."""
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
    """Half the width of a confidence interval in standard errors, by Student's t with this many degrees of freedom."""
    try:
        from scipy.special import stdtrit
    except ModuleNotFoundError as error:
        raise InputError(
            f"intervals need {error.name}, which is not installed: in your clone, run pip install -e '.[lab]'"
        ) from None
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def with_losses(interval: tuple[float, float] | None, lost: int, higher: bool) -> tuple[float, float] | None:
    """The interval of a contender's finished runs, unbounded on the worse side if it lost other runs.

    A lost run counts as worse than any finished one, so a contender that lost runs is not ahead of any other.
    """
    if interval is None or not lost:
        return interval
    return (-math.inf, interval[1]) if higher else (interval[0], math.inf)


def ranks(intervals: Mapping[str, tuple[float, float] | None], higher: bool) -> dict[str, tuple[int, int]]:
    """The best and the worst possible place of each contender that has an interval.

    A contender is ahead of another only if its whole interval is.
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
    """The range of good learning rates that the trials of a search found."""

    points: list[tuple[float, float | None]]
    """Learning rates in ascending order, and the validation metric; None if training diverged or failed."""
    low: float
    high: float
    """Ends of the trials around the best one that are within the margin, without a gap."""
    searched: float
    """The searched range, as a factor."""
    spacing: float
    """The average factor from one trial to the next: narrower good ranges cannot be seen."""

    @property
    def factor(self) -> float:
        """The good range as a factor: 1 if only the best trial is in it."""
        return self.high / self.low


def sensitivity(
    trials: Sequence[tuple[float, float | None]], higher: bool, searched: tuple[float, float] | None = None
) -> Sensitivity | None:
    """The sensitivity found by (learning rate, metric) pairs; None if no pair has a metric."""
    best_of: dict[float, float | None] = {}
    for lr, value in trials:
        if not lr > 0:
            continue
        value = value if value is not None and math.isfinite(value) else None
        known = best_of.get(lr)
        if known is None or (value is not None and (value > known if higher else value < known)):
            best_of[lr] = value  # trials of one learning rate may differ in other settings
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
    # A search cuts a declared range into one part per trial; without one, the trials themselves are its ends.
    parts = len(points) if searched else max(1, len(points) - 1)
    factor = high / low
    return Sensitivity(points, points[first][0], points[last][0], factor, factor ** (1 / parts))
