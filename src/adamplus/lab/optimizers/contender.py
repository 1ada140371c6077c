"""Contenders: how an optimizer is built, and which of its settings are tuned."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin, get_type_hints

from torch import nn
from torch.optim import Optimizer


class UnavailableError(Exception):
    """An optimizer cannot be built here; the message gives the reason."""


@dataclass(frozen=True)
class LogUniform:
    """The log-uniform distribution of numbers between `low` and `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (isinstance(self.low, int | float) and isinstance(self.high, int | float) and 0 < self.low <= self.high):
            raise ValueError(f"LogUniform needs numbers 0 < low <= high, got ({self.low!r}, {self.high!r})")

    def at(self, fraction: float) -> float:
        """The quantile at a fraction, rounded to three digits so that the printed value is the one that was run."""
        return float(f"{math.exp(math.log(self.low) + fraction * math.log(self.high / self.low)):.3g}")

    def __str__(self) -> str:
        return f"log-uniform, {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Contender:
    """An optimizer that takes part in comparisons."""

    name: str
    build: Callable[..., Optimizer]
    """A function of parameters and settings that returns the optimizer, or its class. See also `of_model`."""
    search: dict[str, LogUniform]
    """Settings that are tuned, each with its range."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Other settings that differ from the defaults of `build`; the command line can change them."""
    captured: dict[str, Any] | None = None
    """Settings that the constructor needs if the step is captured in a CUDA graph; None if it cannot be captured."""
    tensors: tuple[str, ...] = ()
    """Settings that a captured step reads from tensors, so that they can change."""
    of_model: bool = False
    """Whether `build` takes the model in place of its parameters, to treat its modules differently."""

    def __post_init__(self) -> None:
        search: Any = self.search
        if not isinstance(search, dict) or not all(isinstance(space, LogUniform) for space in search.values()):
            raise TypeError(f"search of {self.name} must be like {{'lr': LogUniform(0.001, 1.0)}}, got {search!r}")

    def make(self, model: nn.Module, **settings: Any) -> Optimizer:
        """Build the optimizer of a model's parameters."""
        return self.build(model if self.of_model else list(model.parameters()), **settings)

    def names(self) -> list[str]:
        """Names of all settings."""
        return list(self._kinds())

    def choices(self, name: str) -> tuple[str, ...]:
        """The strings that a setting can be, by its type annotation: those of `norm_scope`, for example."""
        kind = self._kinds()[name]
        return tuple(choice for one in (kind, *get_args(kind)) for choice in get_args(one) if isinstance(choice, str))

    def tuple_length(self, name: str) -> int:
        """The length of a setting that is a tuple, by its type annotation, as `betas`; 0 for other settings."""
        kind = self._kinds()[name]
        return len(get_args(kind)) if get_origin(kind) is tuple and ... not in get_args(kind) else 0

    def _kinds(self) -> dict[str, Any]:
        """The type annotation of each setting: each argument of `build` but the first, which is what it steps."""
        found: dict[str, Any] = {}
        for parameter in list(_signature(self.build).parameters.values())[1:]:
            if parameter.kind is parameter.VAR_KEYWORD:  # Unpack[a TypedDict] has their names
                for named in get_args(parameter.annotation):
                    found |= get_type_hints(named)
            elif parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                found[parameter.name] = parameter.annotation
        return found


def _signature(build: Callable[..., Optimizer]) -> inspect.Signature:
    """The signature with annotations evaluated, if they are strings that can be."""
    try:
        return inspect.signature(build, eval_str=True)
    except NameError:  # a type that is only imported for type checkers
        return inspect.signature(build)
