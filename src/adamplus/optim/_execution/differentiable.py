"""Differentiable execution: plain's arithmetic out of place, so that autograd runs through a step."""

import torch
from torch import Tensor

from .plain import count, gradients, norms, split, wide

__all__ = ["add_scaled", "assign", "average", "count", "gradients", "norms", "scale", "split"]


def add_scaled(xs: list[Tensor], ys: list[Tensor], scales: list[Tensor], sign: int, seeds: None = None) -> list[Tensor]:
    """X ± scale · y."""
    return [x + (sign * s * y.to(wide(x, y))).to(x.dtype) for x, y, s in zip(xs, ys, scales, strict=True)]


def scale(xs: list[Tensor], factor: float | Tensor, seeds: None = None) -> list[Tensor]:
    """Factor · x."""
    return [(x.to(wide(x)) * factor).to(x.dtype) for x in xs]


def average(zs: list[Tensor], gs: list[Tensor], betas: list[float | Tensor]) -> list[Tensor]:
    """(1 − β) z + β g."""
    return [
        torch.lerp(z.to(wide(z)), g.to(wide(z)), torch.as_tensor(beta, dtype=wide(z), device=z.device)).to(z.dtype)
        for z, g, beta in zip(zs, gs, betas, strict=True)
    ]


def assign(xs: list[Tensor], values: list[Tensor]) -> list[Tensor]:
    """The values themselves, with their history."""
    return list(values)
