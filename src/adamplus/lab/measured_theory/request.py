"""Requests: the options of the measuring commands, their checks, and the command line that repeats them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .._compare import split_list
from ..errors import InputError, nearest
from .measurement import PROBLEMS
from .methods import METHODS
from .theorems import PROVED

SMALLEST = 1e-6
"""Smallest ε that is allowed: smaller ones take too long."""


@dataclass(frozen=True)
class RateRequest:
    """Options of `adamplus theory rate` and of `adamplus theory table1`, unparsed.

    Attributes:
        kind: "table1", which tunes every method, or "rate", which takes the settings of theorems.
        method: names of methods, separated by commas.
        problem: names of problems, separated by commas.
        epsilon: the largest ε, the smallest, and how many.
        runs: number of measured runs of each method for each ε.
        tuning_runs: number of other runs on which settings are tuned; None for "rate".
        max_steps: number of steps after which a run stops.
        workers: number of processes.
    """

    kind: Literal["rate", "table1"]
    method: str
    problem: str
    epsilon: str
    runs: int
    tuning_runs: int | None
    max_steps: int
    workers: int

    @property
    def command(self) -> str:
        """Command line that repeats this request, as reports store it."""
        options = {name: value for name, value in vars(self).items() if name != "kind"}
        if self.kind == "table1" and self.method == ",".join(METHODS):
            del options["method"]
        return _command_line(self.kind, options)

    @property
    def methods(self) -> list[str]:
        """Names of the methods."""
        return split_list(self.method)

    @property
    def problems(self) -> list[str]:
        """Names of the problems."""
        return split_list(self.problem)

    @property
    def epsilons(self) -> list[float]:
        """All ε, evenly spaced in the logarithm, with four digits, from the largest to the smallest."""
        first, last, count = _numbers(self.epsilon, 3, "epsilon")
        if count not in range(2, 101) or not 0 < last < first:
            raise InputError(
                f"--epsilon must be the largest ε, the smallest and how many (2 to 100), as in 0.2,0.02,5; "
                f"got {self.epsilon}"
            )
        steps = int(count) - 1
        return [float(f"{first * (last / first) ** (i / steps):.4g}") for i in range(steps + 1)]

    def check(self) -> None:
        """Raise an InputError if an option cannot be used."""
        epsilons, known = self.epsilons, METHODS if self.kind == "table1" else PROVED
        for what, names, all_names in (("problem", self.problems, PROBLEMS), ("method", self.methods, known)):
            for name in names:
                if name not in all_names:
                    raise InputError(f"unknown {what} {name!r}: {nearest(name, all_names)}")
                if names.count(name) > 1:
                    raise InputError(f"{what} {name!r} is given twice: name each {what} once")
        if len(set(epsilons)) < 2 or min(epsilons) < SMALLEST or max(epsilons) >= 0.5:
            raise InputError(
                f"a slope needs at least two different ε, from {SMALLEST:g} to below 0.5, "
                f"got {', '.join(f'{epsilon:g}' for epsilon in epsilons)}"
            )
        _at_least(2, runs=self.runs)
        _at_least(1, tuning_runs=self.tuning_runs, max_steps=self.max_steps, workers=self.workers)


@dataclass(frozen=True)
class VarianceRequest:
    """Options of `adamplus theory variance`, unparsed.

    Attributes:
        seeds: number of runs on digits. The double well has ten times as many.
        epochs: epochs per run on digits.
        steps: steps per run on the double well.
        beta: β.
        lr: α on the double well and on digits, with a comma between them.
    """

    seeds: int
    epochs: int
    steps: int
    beta: float
    lr: str

    @property
    def command(self) -> str:
        """Command line that repeats this request, as reports store it."""
        return _command_line("variance", vars(self))

    @property
    def rates(self) -> dict[str, float]:
        """α on each problem: the double well and digits."""
        return dict(zip(("double-well", "digits"), _numbers(self.lr, 2, "lr"), strict=True))

    def check(self) -> None:
        """Raise an InputError if an option cannot be used."""
        rates = self.rates.values()
        _at_least(2, seeds=self.seeds)
        _at_least(1, epochs=self.epochs)
        _at_least(10, steps=self.steps)
        if not 0 < self.beta <= 1:
            raise InputError(f"--beta must be in (0, 1], got {self.beta:g}")
        if not all(0 < rate < math.inf for rate in rates):
            raise InputError(f"--lr must be two finite numbers above 0, got {self.lr}")


def _at_least(least: int, **options: int | None) -> None:
    for name, value in options.items():
        if value is not None and value < least:
            raise InputError(f"--{name.replace('_', '-')} must be at least {least}, got {value}")


def _command_line(name: str, options: Mapping[str, Any]) -> str:
    given = (f"--{option.replace('_', '-')} {value}" for option, value in options.items() if value is not None)
    return f"adamplus theory {name} {' '.join(given)}"


def _numbers(text: str, count: int, name: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise InputError(f"--{name} must be {count} numbers, separated by commas, got {text}")
    return numbers
