"""The routing of a model as text, one line for all parameters that differ only in the numbers in their names."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from .rules import NUMBER, pattern_of

HEADINGS = ("parameter", "shape", "tensors", "geometry", "reason", "settings")


class Route(NamedTuple):
    """Where a parameter goes, and why."""

    names: tuple[str, ...]
    """All names that the model has for it."""
    shape: tuple[int, ...]
    geometry: str
    """"spectral", "sign" or "frozen"."""
    reason: str
    settings: dict[str, Any]
    """Settings of its group besides the geometry."""


def table(routes: Sequence[Route]) -> str:
    """A table of routes with its totals."""
    lines: dict[tuple[Any, ...], list[Route]] = {}
    for route in routes:
        patterns = tuple(pattern_of(name) for name in route.names)
        key = (patterns, route.shape, route.geometry, route.reason, repr(route.settings))
        lines.setdefault(key, []).append(route)
    rows = [HEADINGS, *(_row(some) for line in lines.values() for some in _complete(line))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    sides = [str.rjust if heading == "tensors" else str.ljust for heading in HEADINGS]
    text = ["  ".join(side(cell, w) for side, cell, w in zip(sides, row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in [*text, *_totals(routes)])


def _complete(routes: Sequence[Route], column: int = 0) -> Iterable[Sequence[Route]]:
    """Divide routes until each part has all combinations of the numbers in its names."""
    numbers = [NUMBER.findall(route.names[0]) for route in routes]
    if len(routes) == math.prod(len(set(some)) for some in zip(*numbers, strict=True)):
        return [routes]
    values = dict.fromkeys(some[column] for some in numbers)
    parts = [[route for route, some in zip(routes, numbers, strict=True) if some[column] == value] for value in values]
    return [part for some in parts for part in _complete(some, column + 1)]


def _row(routes: Sequence[Route]) -> tuple[str, ...]:
    route = routes[0]
    names = " = ".join(_merged(list(names)) for names in zip(*(route.names for route in routes), strict=True))
    shape = " × ".join(map(str, route.shape)) or "scalar"
    settings = ", ".join(f"{name}={value!r}" for name, value in route.settings.items())
    return names, shape, str(len(routes)), route.geometry, route.reason, settings


def _merged(names: Sequence[str]) -> str:
    """One name for several that differ in numbers only: `h.{0-11}.weight`."""
    columns = iter(zip(*(map(int, NUMBER.findall(name)) for name in names), strict=True))
    return NUMBER.sub(lambda _: _ranges(sorted(set(next(columns)))), names[0])


def _ranges(numbers: Sequence[int]) -> str:
    """Increasing numbers, in braces if there are several: 4, {0-11} or {0,2,4-6}."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    text = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"{{{text}}}" if len(numbers) > 1 else text


def _totals(routes: Sequence[Route]) -> Iterable[str]:
    for geometry in ("spectral", "sign", "frozen"):
        some = [route for route in routes if route.geometry == geometry]
        if some:
            tensors = "tensor" if len(some) == 1 else "tensors"
            yield f"{geometry}: {sum(math.prod(route.shape) for route in some):,} elements in {len(some)} {tensors}"
