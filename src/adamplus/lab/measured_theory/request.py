"""Requests: the options of the measuring commands, their checks, and the command line that repeats them."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .._compare import split_list
from ..errors import InputError, nearest
from ._methods import METHODS
from .cases import PROBLEMS as TABLE1_PROBLEMS
from .measurement import PROBLEMS
from .theorems import PROVED

SMALLEST = 1e-6
"""Smallest ε that is allowed: smaller ones take too long."""


@dataclass(frozen=True)
class RateRequest:
    """Options of `adamplus theory rate`, unparsed.

    Attributes:
        method: names of methods, separated by commas.
        problem: names of problems, separated by commas.
        epsilon: the largest ε, the smallest, and how many.
        runs: number of runs of each method for each ε.
        max_steps: number of steps after which a run stops.
        workers: number of processes.
    """

    method: str
    problem: str
    epsilon: str
    runs: int
    max_steps: int
    workers: int

    @property
    def command(self) -> str:
        """Command line that repeats this request, as reports store it."""
        return _command_line("rate", vars(self))

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
        return _epsilons(self.epsilon)

    def check(self) -> None:
        """Raise an InputError if an option cannot be used."""
        _check_names("problem", self.problems, PROBLEMS)
        _check_names("method", self.methods, PROVED)
        _check_epsilons(self.epsilons)
        _at_least(2, runs=self.runs)
        _at_least(1, max_steps=self.max_steps, workers=self.workers)


@dataclass(frozen=True)
class Table1Request:
    """Options of `adamplus theory table1`, unparsed.

    Attributes:
        method: names of methods, separated by commas.
        problem: names of problems, separated by commas.
        epsilon: the largest ε, the smallest, and how many.
        variant_epsilons: number of ε, from the largest, in 100 dimensions and with more noise.
        runs: number of measured runs of each method for each ε.
        tuning_runs: number of other runs, on which settings are tuned.
        workers: number of processes.
    """

    method: str
    problem: str
    epsilon: str
    variant_epsilons: int
    runs: int
    tuning_runs: int
    workers: int

    @property
    def command(self) -> str:
        """Command line that repeats this request, as reports store it."""
        options = dict(vars(self))
        for name, every in (("method", METHODS), ("problem", TABLE1_PROBLEMS)):
            if options[name] == ",".join(every):
                del options[name]
        return _command_line("table1", options)

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
        return _epsilons(self.epsilon)

    def epsilons_of(self, problem: str) -> list[float]:
        """The ε of a problem."""
        return self.epsilons[: self.variant_epsilons] if TABLE1_PROBLEMS[problem] else self.epsilons

    def check(self) -> None:
        """Raise an InputError if an option cannot be used."""
        _check_names("problem", self.problems, TABLE1_PROBLEMS)
        _check_names("method", self.methods, METHODS)
        _check_epsilons(self.epsilons)
        _at_least(2, runs=self.runs, tuning_runs=self.tuning_runs, variant_epsilons=self.variant_epsilons)
        _at_least(1, workers=self.workers)


def _epsilons(text: str) -> list[float]:
    first, last, count = _numbers(text, 3, "epsilon")
    if count not in range(2, 101) or not 0 < last < first:
        raise InputError(
            f"--epsilon must be the largest ε, the smallest and how many (2 to 100), as in 0.2,0.02,5; got {text}"
        )
    steps = int(count) - 1
    return [float(f"{first * (last / first) ** (i / steps):.4g}") for i in range(steps + 1)]


def _check_names(what: str, names: list[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"unknown {what} {name!r}: {nearest(name, known)}")
        if names.count(name) > 1:
            raise InputError(f"{what} {name!r} is given twice: name each {what} once")


def _check_epsilons(epsilons: list[float]) -> None:
    if len(set(epsilons)) < 2 or min(epsilons) < SMALLEST or max(epsilons) >= 0.5:
        raise InputError(
            f"a slope needs at least two different ε, from {SMALLEST:g} to below 0.5, "
            f"got {', '.join(f'{epsilon:g}' for epsilon in epsilons)}"
        )


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
