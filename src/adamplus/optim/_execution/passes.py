"""Native execution, in two passes over memory: what the algorithm asks for is noted down, and done all at once."""

from array import array
from typing import Any

import torch
from torch import Tensor

from .native import Table


class Passes:
    """How one part is executed: ‖z_t‖ is the first pass, which writes nothing, and ŵ_{t+1} the second."""

    keep: float | Tensor = 1.0
    begun: bool = False  # to write

    def gradients(
        self, gs: list[Tensor], w_hats: list[Tensor], zs: list[Tensor], maximize: bool, weight_decay: float
    ) -> list[Tensor]:
        """±g + λ ŵ, noted."""
        self.table = Table(w_hats, gs, zs)
        self.settings: dict[str, Any] = {"maximize": maximize, "decay": weight_decay}
        return gs

    def add_scaled(
        self, xs: list[Tensor], ys: list[Tensor], scales: list[Tensor], sign: int, seeds: Any
    ) -> list[Tensor]:
        """X + scale · y, noted; x − scale · y, and with it everything that was noted."""
        if sign > 0:
            self.offset = scales
        else:
            self.begun = True
            self.table.update(self.offset, scales, keep=_column([self.keep]), **self.settings)
            torch.autograd.graph.increment_version(xs)  # so that autograd notices; z is never part of a graph
        return xs

    def scale(self, xs: list[Tensor], factor: float | Tensor, seeds: Any) -> list[Tensor]:
        """Factor · x, noted."""
        self.keep = factor
        return xs

    def average(self, zs: list[Tensor], gs: list[Tensor], betas: list[float | Tensor]) -> list[Tensor]:
        """(1 − β) z + β g, noted."""
        self.settings["beta"] = _column(betas)
        return zs

    def norms(self, zs: list[Tensor]) -> Tensor:
        """‖z_t‖ of each tensor."""
        return self.table.norms(**self.settings)

    def assign(self, xs: list[Tensor], values: list[Tensor]) -> list[Tensor]:
        """X = value, in place."""
        torch._foreach_copy_(xs, values)
        return xs

    def count(self, steps: list[Tensor]) -> None:
        """One more step, in place."""
        torch._foreach_add_(steps, [torch.ones((), device="cpu")] * len(steps))  # a number would become one for each


def _column(values: list[Any]) -> Any:
    """The values in float64, without reading those that are tensors."""
    if not any(isinstance(value, Tensor) for value in values):
        return array("d", values)
    return torch.stack([torch.as_tensor(value, dtype=torch.float64, device="cpu") for value in values])
