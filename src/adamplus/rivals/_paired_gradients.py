"""Base classes of SPIDER, STORM, Prox-SARAH and SNVRG, whose estimates compare one sample at two points."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from ._base import Closure, Rival

Gradients = dict[Tensor, Tensor]


class PairedGradients(Rival):
    """Base class of optimizers that call the closure up to twice per step: on one sample, at two points.

    Example:
        >>> issubclass(adamplus.rivals.STORM, adamplus.rivals.PairedGradients)
        True
    """

    @property
    def large_batch_next(self) -> bool:
        """Whether the next step is a restart, for which the closure should average the method's large batch."""
        return False

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Take one step.

        Args:
            closure: function that computes the loss of one sample at the current parameters, calls backward and
                returns the loss. It is called twice, at two points, and both calls must use the same sample
                (dropout included). Gradients are set to None before each call. If `large_batch_next`, the closure
                is called once, and its sample should be the large batch.

        Returns:
            The loss at the point from which the step starts. The parameters keep the gradients of this point.
        """
        if closure is None:
            raise RuntimeError(
                f"{type(self).__name__} needs the gradient of one sample at two points: pass step() a closure that "
                "computes the loss of that sample, calls backward and returns the loss"
            )
        loss, here = self._evaluate(closure)
        points = {} if self.large_batch_next else self._other_points(list(here))
        there = self._evaluate_at(points, closure) if points else {}
        self.zero_grad(set_to_none=True)  # a parameter with a gradient only at the other point must not move
        for p, g in here.items():
            p.grad = g
        self._estimate(here, there)
        self._take()
        self._count()
        return loss

    @abstractmethod
    def _other_points(self, moving: list[Tensor]) -> dict[Tensor, Tensor]:
        """Points to compare with, for the parameters that have one."""

    @abstractmethod
    def _estimate(self, here: Gradients, there: Gradients) -> None:
        """Update the estimate from the gradients at both points. Parameters that are not in `there` restart."""

    def _evaluate(self, closure: Closure) -> tuple[Any, Gradients]:
        self.zero_grad(set_to_none=True)
        with torch.enable_grad():
            loss = closure()
        return loss, {p: p.grad for _, p in self._moving() if p.grad is not None}

    def _evaluate_at(self, points: dict[Tensor, Tensor], closure: Closure) -> Gradients:
        held = {p: p.clone() for p in points}
        for p, point in points.items():
            p.copy_(point)
        try:
            _, gradients = self._evaluate(closure)
        finally:
            for p, value in held.items():
                p.copy_(value)
        return {p: gradients.get(p, torch.zeros_like(p)) for p in points}


class Recursive(PairedGradients):
    """Base class of estimates v = g(x_t) + keep · (v − g(x_{t−1})) on one sample, and v = g(x_t) at a restart."""

    def _other_points(self, moving: list[Tensor]) -> dict[Tensor, Tensor]:
        return {p: self.state[p]["previous"] for p in moving if self.state[p]}

    def _estimate(self, here: Gradients, there: Gradients) -> None:
        for group, p in self._moving():
            state = self.state[p]
            if p in there:
                state["v"] = here[p] + self._keep(group, p) * (state["v"] - there[p])
            else:
                state["v"] = here[p].clone()
            state["previous"] = p.clone()

    def _keep(self, group: dict[str, Any], p: Tensor) -> float | Tensor:
        return 1.0
