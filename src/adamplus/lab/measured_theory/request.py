"""Requests: the options of the measuring commands, how they are checked, and the command line that they make."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .._compare import split
from ..errors import InputError, nearest
from .measurement import PROBLEMS
from .methods import METHODS
from .theorems import PROVED

SMALLEST = 1e-6
"""ε, below which nobody can wait for anybody."""


@dataclass(frozen=True)
class RateRequest:
    """Options of `adamplus theory rate` and of `adamplus theory table1`, as they were given.

    Attributes:
        kind: "table1" tunes every method; "rate" takes the settings of the theorems.
        method: names of methods, separated by commas.
        problem: names of problems, separated by commas.
        epsilon: the largest ε, the smallest, and how many.
        runs: runs of each method for each ε.
        tuning_runs: other runs, which choose the settings; None for "rate".
        max_steps: steps after which a run is given up.
        workers: processes.
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
        """The command line that makes this request."""
        options = {name: value for name, value in vars(self).items() if name != "kind"}
        if self.kind == "table1" and self.method == ",".join(METHODS):
            del options["method"]
        return _command_line(self.kind, options)

    @property
    def methods(self) -> list[str]:
        """Names of the methods."""
        return split(self.method)

    @property
    def problems(self) -> list[str]:
        """Names of the problems."""
        return split(self.problem)

    @property
    def epsilons(self) -> list[float]:
        """Every ε, evenly in the logarithm and with four figures, the largest first."""
        first, last, count = _numbers(self.epsilon, 3, "epsilon")
        if count not in range(2, 101) or not 0 < last < first:
            raise InputError(
                f"--epsilon {self.epsilon}: give the largest, the smallest and how many (2 to 100), as 0.2,0.02,5"
            )
        steps = int(count) - 1
        return [float(f"{first * (last / first) ** (i / steps):.4g}") for i in range(steps + 1)]

    def check(self) -> None:
        """Refuse what cannot be measured."""
        epsilons, known = self.epsilons, METHODS if self.kind == "table1" else PROVED
        for what, names, all_names in (("problem", self.problems, PROBLEMS), ("method", self.methods, known)):
            for name in names:
                if name not in all_names:
                    raise InputError(f"{what} {name!r}: {nearest(name, all_names)}")
                if names.count(name) > 1:
                    raise InputError(f"{what} {name!r} is there twice: name each once")
        if len(set(epsilons)) < 2 or min(epsilons) < SMALLEST or max(epsilons) >= 0.5:
            between = f"{SMALLEST:g} and 0.5"
            raise InputError(f"ε {epsilons}: a slope needs two different ones at least, between {between}")
        others = [self.max_steps, self.workers, *([] if self.tuning_runs is None else [self.tuning_runs])]
        if self.runs < 2 or min(others) < 1:
            raise InputError(
                f"{self.runs} runs, {self.tuning_runs} to tune by, {self.max_steps} steps, {self.workers} workers: "
                "there must be two runs, and one of everything else, at least"
            )


@dataclass(frozen=True)
class VarianceRequest:
    """Options of `adamplus theory variance`, as they were given.

    Attributes:
        seeds: runs on digits; the double well has ten times as many.
        epochs: epochs on digits.
        steps: steps on the double well.
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
        """The command line that makes this request."""
        return _command_line("variance", vars(self))

    @property
    def rates(self) -> dict[str, float]:
        """α of each place."""
        return dict(zip(("double-well", "digits"), _numbers(self.lr, 2, "lr"), strict=True))

    def check(self) -> None:
        """Refuse what cannot be measured."""
        rates = self.rates.values()
        if self.seeds < 2 or self.epochs < 1 or self.steps < 10:
            raise InputError(
                f"{self.seeds} seeds, {self.epochs} epochs, {self.steps} steps: at least 2, 1 and 10 are needed"
            )
        if not 0 < self.beta <= 1 or not all(0 < rate < math.inf for rate in rates):
            listed = ", ".join(f"{rate:g}" for rate in rates)
            raise InputError(f"β = {self.beta:g}, lr = {listed}: β is in (0, 1], lr above 0")


def _command_line(name: str, options: Mapping[str, Any]) -> str:
    given = (f"--{option.replace('_', '-')} {value}" for option, value in options.items() if value is not None)
    return f"adamplus theory {name} {' '.join(given)}"


def _numbers(text: str, count: int, name: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise InputError(f"--{name} {text}: give {count} numbers, separated by commas")
    return numbers
