"""The declared search: which settings are tried, and which of them a comparison goes on with."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..optimizers import LogUniform

Kind = Literal["random", "grid"]


@dataclass(frozen=True)
class Choice:
    """What the final runs are built with."""

    settings: dict[str, Any]
    edge: list[str]
    """Settings of which nothing further out was tried: the best may lie beyond."""
    finished: int
    """How many trials came to their end; where none did, the middle of the ranges is taken."""


def middle(ranges: Mapping[str, LogUniform]) -> dict[str, float]:
    """The geometric mean of each range: what is used where nothing is tuned."""
    return {name: values.at(0.5) for name, values in ranges.items()}


def trials(ranges: Mapping[str, LogUniform], number: int, kind: Kind, seed: str) -> list[dict[str, float]]:
    """As many settings as asked; the same ones for the same seed, whenever they are asked for.

    Each range is cut into as many equal factors; each of these parts is tried once, in its middle (a grid) or at
    random in it, so that nobody's trials crowd at one end by bad luck. With several ranges, their parts are matched at
    random (a Latin square): the number of trials is the same for every optimizer. A setting is tried at the same
    fractions of its range, whose range it may be: nobody has luckier trials than others.
    """
    columns: list[list[float]] = []
    for name, values in ranges.items():
        generator = random.Random(f"{seed}\n{name}")
        fractions = [(i + (0.5 if kind == "grid" else generator.random())) / number for i in range(number)]
        if kind == "random" or columns:
            generator.shuffle(fractions)
        columns.append([values.at(fraction) for fraction in fractions])
    return [dict(zip(ranges, row, strict=True)) for row in zip(*columns, strict=True)]


def choose(
    tried: Sequence[Mapping[str, float]],
    results: Sequence[float | None],
    ranges: Mapping[str, LogUniform],
    better: Literal["lower", "higher"],
) -> Choice:
    """The best of the trials; those without a result (None, NaN) lose to any that has one, and ties go to the first."""
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
