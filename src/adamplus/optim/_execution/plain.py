"""Plain execution: tensor by tensor, in place; the one that takes any dtype, layout and tensor subclass."""

from collections.abc import Iterator

import torch
from torch import Tensor

from .._algorithm import Part
from .._norm import tensor_norm
from .rounding import another, store

Seeds = list[Tensor] | None

# Mixed dtypes are computed in pieces of this many elements, so that no temporary is as large as a parameter.
PIECE = 1 << 16


def split(part: Part) -> list[Part]:
    """One part a tensor: what weight decay and conversions need beside the state is then one tensor at a time."""
    return [part.take([i]) for i in range(len(part.index))]


def gradients(
    gs: list[Tensor], w_hats: list[Tensor], zs: list[Tensor], maximize: bool, weight_decay: float
) -> list[Tensor]:
    """±g + λ ŵ in z's precision; as in torch.optim, `maximize` turns g and not the decay."""
    gs = [g.to(z.dtype) for g, z in zip(gs, zs, strict=True)]
    if maximize:
        gs = [-g for g in gs]
    if weight_decay != 0:
        gs = [g.add(w.to(g.dtype), alpha=weight_decay) for g, w in zip(gs, w_hats, strict=True)]
    return gs


def add_scaled(
    xs: list[Tensor], ys: list[Tensor], scales: list[Tensor], sign: int, seeds: Seeds = None
) -> list[Tensor]:
    """X ± scale · y, in place; 16-bit tensors are computed in float32 and rounded once, at random with a seed."""
    for x, y, scale, seed in zip(xs, ys, scales, seeds or [None] * len(xs), strict=True):
        if (dtype := wide(x, y)) == x.dtype == y.dtype:
            x.addcmul_(y, scale, value=sign)
        else:
            first = 0
            for x_piece, y_piece in _pieces(x, y):
                value = x_piece.to(dtype).addcmul(y_piece.to(dtype), scale.to(dtype), value=sign)
                store(x_piece, value, seed if sign < 0 else another(seed), first)
                first += x_piece.numel()
    return xs


def scale(xs: list[Tensor], factor: float | Tensor, seeds: Seeds = None) -> list[Tensor]:
    """Factor · x, in place; the factor is never rounded to 16 bits."""
    for x, seed in zip(xs, seeds or [None] * len(xs), strict=True):
        dtype = wide(x)
        by = factor.to(x.device, dtype) if isinstance(factor, Tensor) else factor
        if dtype == x.dtype:
            x.mul_(by)
        else:
            first, seed = 0, another(another(seed))
            for piece, _ in _pieces(x, x):
                store(piece, piece.to(dtype) * by, seed, first)
                first += piece.numel()
    return xs


def average(zs: list[Tensor], gs: list[Tensor], betas: list[float | Tensor]) -> list[Tensor]:
    """(1 − β) z + β g, in place."""
    for z, g, beta in zip(zs, gs, betas, strict=True):
        dtype = wide(z)
        weight = beta.to(z.device, dtype).reshape(()) if isinstance(beta, Tensor) else beta
        if dtype == z.dtype:
            z.lerp_(g, weight)
        else:
            z.copy_(z.to(dtype).lerp(g.to(dtype), weight))
    return zs


def assign(xs: list[Tensor], values: list[Tensor]) -> list[Tensor]:
    """X = value, in place."""
    for x, value in zip(xs, values, strict=True):
        x.copy_(value)
    return xs


def norms(zs: list[Tensor]) -> Tensor:
    """‖z‖ of each tensor."""
    return torch.stack([tensor_norm(z) for z in zs])


def count(steps: list[Tensor]) -> None:
    """One more step, in place."""
    torch._foreach_add_(steps, 1.0)


def wide(*tensors: Tensor) -> torch.dtype:
    """The precision to compute in: the widest of the tensors', float32 at least."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def _pieces(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    if x.numel() <= 1024 or torch.compiler.is_compiling():  # a compiler makes one loop of it, without temporaries
        yield x, y
    else:
        longest = max(range(x.ndim), key=lambda d: x.shape[d])
        piece = min(PIECE if x.is_cpu else 256 * PIECE, x.numel() // 8)  # a launch is dearer than a loop
        rows = max(1, piece * x.shape[longest] // x.numel())
        yield from zip(x.split(rows, longest), y.split(rows, longest), strict=True)
