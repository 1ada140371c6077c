"""What a contender is: how an optimizer is built, and what of it is tuned."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin, get_type_hints

from torch.optim import Optimizer


class UnavailableError(Exception):
    """This optimizer cannot take part; the message says why."""


@dataclass(frozen=True)
class LogUniform:
    """Numbers between two, of which each factor is as likely as any other."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (isinstance(self.low, int | float) and isinstance(self.high, int | float) and 0 < self.low <= self.high):
            raise ValueError(f"LogUniform({self.low!r}, {self.high!r}): it goes from a number above 0 to a larger one")

    def at(self, fraction: float) -> float:
        """The one at that fraction of the way, of three digits: what is printed is what was run."""
        return float(f"{math.exp(math.log(self.low) + fraction * math.log(self.high / self.low)):.3g}")

    def __str__(self) -> str:
        return f"log-uniform, {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Contender:
    """An optimizer that takes part in comparisons."""

    name: str
    build: Callable[..., Optimizer]
    """From parameters and settings."""
    search: dict[str, LogUniform]
    """What is tuned, and between which values."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Beside what is tuned; the command line can change them."""
    captured: dict[str, Any] | None = None
    """What its constructor needs where its step is captured in a CUDA graph; None where it cannot be."""
    tensors: tuple[str, ...] = ()
    """Settings that a captured step reads from tensors, so that they can change."""

    def __post_init__(self) -> None:
        search: Any = self.search
        if not isinstance(search, dict) or not all(isinstance(space, LogUniform) for space in search.values()):
            raise TypeError(f"search of {self.name} is {search!r}, and has to be as {{'lr': LogUniform(0.001, 1.0)}}")

    def names(self) -> list[str]:
        """What can be set."""
        return list(self._kinds())

    def words(self, name: str) -> tuple[str, ...]:
        """What a setting can be that is a word and no number, as its type tells: `norm_scope`, for one."""
        kind = self._kinds()[name]
        return tuple(word for one in (kind, *get_args(kind)) for word in get_args(one) if isinstance(word, str))

    def numbers(self, name: str) -> int:
        """How many a setting is that is several, as its type tells: `betas`, for one; else 0."""
        kind = self._kinds()[name]
        return len(get_args(kind)) if get_origin(kind) is tuple and ... not in get_args(kind) else 0

    def _kinds(self) -> dict[str, Any]:
        """Of what type each setting is said to be."""
        found: dict[str, Any] = {}
        for parameter in _signature(self.build).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:  # their names, where Unpack[a TypedDict] tells them
                for named in get_args(parameter.annotation):
                    found |= get_type_hints(named)
            elif parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                found[parameter.name] = parameter.annotation
        return {name: kind for name, kind in found.items() if name != "params"}


def _signature(build: Callable[..., Optimizer]) -> inspect.Signature:
    """With types as types, where the file that has it writes them as text."""
    try:
        return inspect.signature(build, eval_str=True)
    except NameError:  # of a type that is there for a type checker alone
        return inspect.signature(build)
