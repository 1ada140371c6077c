"""The search of settings: which ones are tried, and which of them the final runs have."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..optimizers import LogUniform

Kind = Literal["random", "grid"]


@dataclass(frozen=True)
class Choice:
    """The settings of the final runs, and how the search found them."""

    settings: dict[str, Any]
    edge: list[str]
    """Settings whose best value is the smallest or largest tried: the optimum may lie beyond."""
    finished: int
    """How many trials finished. If none did, the middle of each range is taken."""


def middle(ranges: Mapping[str, LogUniform]) -> dict[str, float]:
    """The geometric mean of each range: the settings of a comparison without trials."""
    return {name: values.at(0.5) for name, values in ranges.items()}


def trials(ranges: Mapping[str, LogUniform], number: int, kind: Kind, seed: str) -> list[dict[str, float]]:
    """Settings to try. The same seed gives the same settings.

    Each range is cut into `number` equal factors, and each of these parts is tried once.

    - One range: an even grid. With `grid`, each value is in the middle of its part. With `random`, the whole grid is
      shifted by one random fraction of a part, so that no two neighbours are further apart than others.
    - Several ranges: each value is in the middle of its part (`grid`) or at a random place in it (`random`), and the
      parts of different ranges are matched at random (a Latin square), so that the number of trials stays the same.

    A setting is tried at the same fractions of its range for every optimizer, so that none has luckier trials.
    """
    columns: list[list[float]] = []
    for name, values in ranges.items():
        generator = random.Random(f"{seed}\n{name}")
        shifts = [0.5 if kind == "grid" else generator.random() for _ in range(number)]
        if len(ranges) == 1:
            shifts = shifts[:1] * number
        fractions = [(i + shift) / number for i, shift in enumerate(shifts)]
        if len(ranges) > 1 and (kind == "random" or columns):
            generator.shuffle(fractions)
        columns.append([values.at(fraction) for fraction in fractions])
    return [dict(zip(ranges, row, strict=True)) for row in zip(*columns, strict=True)]


def choose(
    tried: Sequence[Mapping[str, float]],
    results: Sequence[float | None],
    ranges: Mapping[str, LogUniform],
    better: Literal["lower", "higher"],
) -> Choice:
    """Choose the best of the trials.

    Trials without a result (None or NaN) lose to any that has one. Of equal results, the first is chosen.
    """
    sign = 1 if better == "lower" else -1
    scores = [math.inf if result is None or math.isnan(result) else sign * result for result in results]
    finished = [i for i, result in enumerate(results) if result is not None and not math.isnan(result)]
    if not finished:
        return Choice(middle(ranges), [], 0)
    best = tried[min(finished, key=lambda i: scores[i])]
    edge = [
        key
        for key in ranges
        if len(tried) > 2 and best[key] in (min(t[key] for t in tried), max(t[key] for t in tried))
    ]
    return Choice(dict(best), edge, len(finished))
