"""Base class of the rivals: checked settings, a count of steps, and norms over everything or over each run."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

NormScope: TypeAlias = Literal["global", "row"]
Rule: TypeAlias = tuple[Callable[[Any], bool], str]
Closure: TypeAlias = Callable[[], Any]


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def is_count(x: Any) -> bool:
    """Whether x is a whole number of at least 1."""
    return isinstance(x, int) and not isinstance(x, bool) and x >= 1


RATE: Rule = (lambda x: _is_number(x) and 0 <= x < math.inf, "finite and at least 0")
POSITIVE: Rule = (lambda x: _is_number(x) and 0 < x < math.inf, "finite and above 0")
COUNT: Rule = (is_count, "a whole number of at least 1")
SCOPE: Rule = (lambda x: x in ("global", "row"), "'global' or 'row'")


class Recipe(NamedTuple):
    """Settings and batch sizes that a method's own paper recommends.

    Example:
        >>> recipe = adamplus.rivals.SPIDER.recipe(epsilon=0.1, L=1.0, sigma=1.0)
        >>> w = torch.nn.Parameter(torch.ones(3))
        >>> optimizer = adamplus.rivals.SPIDER([w], **recipe.settings)
        >>> recipe.batches                        # the large batch of a restart, and the batch of other steps
        (200, 20)
    """

    settings: dict[str, Any]
    """Keyword arguments of the optimizer."""
    batches: tuple[int, ...]
    """Samples per step. The first is the batch of a restart. For methods with levels, item l belongs to level l."""


class Rival(Optimizer, ABC):
    """Base class of torch.optim optimizers whose norms, if any, are over all parameters together.

    With norm_scope="row" the parameters hold many runs at once: row i of every parameter belongs to run i. Norms are
    then taken for each row, so the runs do not depend on each other.
    """

    rules: ClassVar[dict[str, Rule]] = {}
    """Rules for the values of a group's settings."""
    shared: ClassVar[tuple[str, ...]] = ()
    """Names of the settings that all groups share."""
    progress: ClassVar[dict[str, Any]] = {}
    """Counters that all groups share, and their initial values."""

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        super().__init__(params, {**defaults, **self.progress, "steps": 0})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group. Its settings default to the optimizer's; shared settings must not differ."""
        settings = {**self.defaults, **param_group}
        for name, (allowed, description) in self.rules.items():
            if not allowed(settings[name]):
                raise ValueError(f"{name} must be {description}, got {settings[name]!r}")
        for name in self.shared:
            if settings[name] != self.defaults[name]:
                raise ValueError(
                    f"{name} must be the same in all groups, got {settings[name]!r} in a group and "
                    f"{self.defaults[name]!r} for the optimizer: pass it to the optimizer"
                )
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        group.update({name: self.param_groups[0][name] for name in (*self.shared, *self.progress, "steps")})
        if any(p.is_complex() for p in group["params"]):
            self.param_groups.pop()
            raise TypeError(
                f"{type(self).__name__} needs real parameters, got a complex one: pass torch.view_as_real of it"
            )

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return self._common("steps")

    def _common(self, name: str) -> Any:
        """Value of a setting or counter that all groups share. A loaded checkpoint may have changed it."""
        return self.param_groups[0][name]

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Take one step.

        Args:
            closure: function that re-evaluates the model and returns the loss.

        Returns:
            The loss of the closure, or None without a closure.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._take()
        self._count()
        return loss

    @abstractmethod
    def _take(self) -> None:
        """Move the parameters by their gradients."""

    def _count(self) -> None:
        for group in self.param_groups:
            group["steps"] += 1

    def _moving(self) -> list[tuple[dict[str, Any], Tensor]]:
        """Parameters that have a gradient, each with its group."""
        return [(group, p) for group in self.param_groups for p in group["params"] if p.grad is not None]

    def _norm(self, tensors: Iterable[Tensor]) -> Tensor:
        return self._total(t.to(_precise(t)).square() for t in tensors).sqrt()

    def _total(self, tensors: Iterable[Tensor]) -> Tensor:
        """Sum over everything, or over each row."""
        sums = [t.to(_precise(t)).flatten(1).sum(1) if self._rows else t.to(_precise(t)).sum() for t in tensors]
        return torch.stack([s.to(sums[0].device) for s in sums]).sum(0)

    def _largest(self, tensors: Iterable[Tensor]) -> Tensor:
        """Maximum over everything, or over each row."""
        largest = [t.flatten(1).amax(1) if self._rows else t.amax() for t in tensors]
        return torch.stack([x.to(largest[0].device) for x in largest]).amax(0)

    @property
    def _rows(self) -> bool:
        return self._common("norm_scope") == "row"


def spread(value: Tensor, like: Tensor) -> Tensor:
    """Reshape a number, or one number per row, to multiply `like`. Booleans keep their dtype."""
    value = value.to(like.device) if value.dtype == torch.bool else value.to(like)
    return value.reshape(-1, *[1] * (like.ndim - 1)) if value.ndim else value


def _precise(t: Tensor) -> torch.dtype:
    return torch.float64 if t.dtype == torch.float64 else torch.float32
