"""Differentiable execution: plain's arithmetic out of place, so that autograd runs through a step."""

import torch
from torch import Tensor

from .._algorithm import Seeds
from .lists import Gathered, Lists, real, unreal
from .plain import Plain, wide


class Differentiable(Plain):
    """The list operations out of place; results have a history."""

    def add_scaled(
        self, xs: list[Tensor], ys: list[Tensor], scales: list[Tensor], sign: int, seeds: Seeds = None
    ) -> list[Tensor]:
        """Return x ± scale · y, with its history."""
        return [x + (sign * s * y.to(wide(x, y))).to(x.dtype) for x, y, s in zip(xs, ys, scales, strict=True)]

    def scale(self, xs: list[Tensor], factor: float | Tensor, seeds: Seeds = None) -> list[Tensor]:
        """Return factor · x, with its history."""
        return [(x.to(wide(x)) * factor).to(x.dtype) for x in xs]

    def average(self, zs: list[Tensor], gs: list[Tensor], weights: list[float | Tensor]) -> list[Tensor]:
        """Return the averages, with their history."""
        return [
            torch.lerp(z.to(wide(z)), g.to(wide(z)), torch.as_tensor(weight, dtype=wide(z), device=z.device)).to(
                z.dtype
            )
            for z, g, weight in zip(zs, gs, weights, strict=True)
        ]

    def assign(self, xs: list[Tensor], values: list[Tensor]) -> list[Tensor]:
        """The values themselves, with their history."""
        return list(values)


DIFFERENTIABLE = Differentiable()


class DifferentiableLists(Lists):
    """Takes a step through which autograd reaches, and puts the results into parameters and state."""

    def __init__(self) -> None:
        super().__init__(DIFFERENTIABLE)

    def step(self, gathered: Gathered) -> None:
        """Take a step."""
        groups = self.take(gathered)
        for group in groups:
            params = [p for p in group.settings["params"] if p.grad is not None]
            for part in group.parts:
                for w_hat, z, offset, i in zip(part.w_hat, part.z, part.offset, part.index, strict=True):
                    p = params[i]
                    real(p).copy_(w_hat)
                    gathered.state[p]["z"] = unreal(z, p)
                    gathered.state[p]["offset"] = offset
