"""Plain execution: tensor by tensor, in place. It takes any dtype, layout and tensor subclass."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.linalg import vector_norm

from .._algorithm import ListExecution, Part, Seeds
from .._norm import scalar_dtype
from .native import Table, in_memory_order, ready, takes
from .rounding import another, store

# Mixed dtypes are computed in pieces of this many elements, so that no temporary is as large as a parameter.
PIECE = 1 << 16
# One float32 sum over a whole tensor is off by 1e-3 at 2·10⁷ elements on a CPU (torch 2.13, always downwards). Sums of
# 4,096 elements that are added in float64 are off by less than 1e-7, in the same time.
ROW = 4096
# If ‖z‖ is not between these, squares may have left float32's range, and it is taken again in float64, 10 × slower.
SAFE = (1e-10, 1e18)


class Plain(ListExecution):
    """The list operations, one tensor after the other. ‖z‖ is taken in C if the library takes the tensor."""

    def parts(self, part: Part) -> list[Part]:
        """One part for each tensor: temporaries of weight decay and conversions are then one tensor at a time."""
        return [part.take([i], self) for i in range(len(part.index))]

    def gradients(
        self, gs: list[Tensor], w_hats: list[Tensor], zs: list[Tensor], maximize: bool, weight_decay: float
    ) -> list[Tensor]:
        """±g + λ ŵ in z's precision; as in torch.optim, `maximize` turns g and not the decay."""
        gs = [g.to(z.dtype) for g, z in zip(gs, zs, strict=True)]
        if maximize:
            gs = [-g for g in gs]
        if weight_decay != 0:
            gs = [g.add(w.to(g.dtype), alpha=weight_decay) for g, w in zip(gs, w_hats, strict=True)]
        return gs

    def add_scaled(
        self, xs: list[Tensor], ys: list[Tensor], scales: list[Tensor], sign: int, seeds: Seeds = None
    ) -> list[Tensor]:
        """Add ± scale · y to x, in place. 16-bit tensors are computed in float32 and rounded once."""
        for x, y, scale, seed in zip(xs, ys, scales, seeds or [None] * len(xs), strict=True):
            # An accelerator converts y while it reads it, and a CPU would make a copy first.
            if (dtype := wide(x, y)) == x.dtype and (y.dtype == x.dtype or not x.is_cpu):
                x.addcmul_(y, scale, value=sign)
            else:
                first = 0
                for x_piece, y_piece in _pieces(x, y):
                    value = x_piece.to(dtype).addcmul(y_piece.to(dtype), scale.to(dtype), value=sign)
                    store(x_piece, value, seed if sign < 0 else another(seed), first)
                    first += x_piece.numel()
        return xs

    def scale(self, xs: list[Tensor], factor: float | Tensor, seeds: Seeds = None) -> list[Tensor]:
        """Multiply x by the factor, in place; the factor is never rounded to 16 bits."""
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

    def average(self, zs: list[Tensor], gs: list[Tensor], weights: list[float | Tensor]) -> list[Tensor]:
        """Average z with g, in place."""
        for z, g, own in zip(zs, gs, weights, strict=True):
            dtype = wide(z)
            weight = own.to(z.device, dtype).reshape(()) if isinstance(own, Tensor) else own
            if dtype == z.dtype:
                z.lerp_(g, weight)
            else:
                z.copy_(z.to(dtype).lerp(g.to(dtype), weight))
        return zs

    def assign(self, xs: list[Tensor], values: list[Tensor]) -> list[Tensor]:
        """Copy the values into the tensors."""
        for x, value in zip(xs, values, strict=True):
            x.copy_(value)
        return xs

    def norms(self, zs: list[Tensor]) -> Tensor:
        """‖z‖ of each tensor."""
        return torch.stack([tensor_norm(z) for z in zs])

    def count(self, steps: list[Tensor]) -> None:
        """One more step, in place."""
        torch._foreach_add_(steps, 1.0)


PLAIN = Plain()


def tensor_norm(z: Tensor) -> Tensor:
    """‖z‖ in the widest precision that z's device has: to about 1e-7 for any size, dtype and magnitude."""
    if ready() and takes(z, z, z):
        return Table([z], None, [z]).norms()[0]
    if not z.is_cpu:  # where vector_norm would make a float64 copy of z first
        return torch._foreach_norm([z], 2, dtype=scalar_dtype(z.device))[0]
    if z.numel() <= ROW or torch.compiler.is_compiling():
        return vector_norm(z, dtype=torch.float64)
    z = in_memory_order(z).reshape(-1)  # no copy, unless z has gaps
    rest = z.numel() % ROW
    rows, tail = z.narrow(0, 0, z.numel() - rest).view(-1, ROW), z.narrow(0, z.numel() - rest, rest)
    norm = vector_norm(vector_norm(rows, dim=1, dtype=torch.promote_types(z.dtype, torch.float32)), dtype=torch.float64)
    if not SAFE[0] < norm.item() < SAFE[1]:
        norm = vector_norm(torch.cat([vector_norm(some.double(), dim=1) for some in rows.split(16)]))
    return torch.hypot(norm, vector_norm(tail, dtype=torch.float64)) if rest else norm


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
