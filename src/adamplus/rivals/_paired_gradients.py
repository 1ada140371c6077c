"""Estimates of the gradient that compare one sample at two points: what SPIDER, STORM, Prox-SARAH and SNVRG share."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from ._base import Closure, Rival

Gradients = dict[Tensor, Tensor]


class PairedGradients(Rival):
    """Base class of optimizers whose closure is called up to twice a step, at two points, on the same sample.

    Example:
        >>> issubclass(adamplus.rivals.STORM, adamplus.rivals.PairedGradients)
        True
    """

    @property
    def large_batch_next(self) -> bool:
        """Whether the next step restarts, and its closure should average the method's large batch."""
        return False

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Take one step.

        Args:
            closure: computes the loss of one sample at what the parameters hold, calls backward and returns the loss;
                it is called twice, at two points, and the sample (dropout included) must be the same in both.
                Gradients are set to None before each call. When `large_batch_next`, the sample is a large one, and
                the closure is called once.

        Returns:
            The loss at the point that the step starts from, whose gradients the parameters keep.
        """
        if closure is None:
            raise RuntimeError(
                f"{type(self).__name__} needs the gradient of one sample at two points: pass step() a closure that "
                "computes the loss of that sample, calls backward and returns the loss"
            )
        loss, here = self._evaluate(closure)
        points = {} if self.large_batch_next else self._other_points(list(here))
        there = self._evaluate_at(points, closure) if points else {}
        self.zero_grad(set_to_none=True)  # or a parameter that has a gradient there alone would move
        for p, g in here.items():
            p.grad = g
        self._estimate(here, there)
        self._take()
        self._count()
        return loss

    @abstractmethod
    def _other_points(self, moving: list[Tensor]) -> dict[Tensor, Tensor]:
        """The points to compare with, of those parameters that have one."""

    @abstractmethod
    def _estimate(self, here: Gradients, there: Gradients) -> None:
        """Make the estimate from the gradients at both points; what is not in `there` starts anew."""

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
    """v = g(x_t) + keep · (v − g(x_{t−1})), with both gradients of one sample; v = g(x_t) at a restart."""

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
