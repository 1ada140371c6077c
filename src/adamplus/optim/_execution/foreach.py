"""Foreach execution: many tensors in one call, in place. Plain takes over for mixed or 16-bit dtypes, C on a CPU."""

import torch
from torch import Tensor

from .._algorithm import Part, Seeds
from .._norm import scalar_dtype
from .native import Native, ready, takes, takes_all
from .plain import Plain, wide

# Elements of a part. Weight decay and `maximize` make temporaries of a part's size: 32 Mi are 128 MiB in float32. On a
# CPU, z is still in the cache when its norm is taken.
PART, CPU_PART = 1 << 25, 1 << 20


class Foreach(Plain):
    """The list operations, by torch's own functions for lists where the dtypes allow it."""

    def parts(self, part: Part) -> list[Part]:
        """Parts of one device and one set of dtypes, of bounded size; those that C can take are executed by it."""
        sizes: dict[tuple[object, ...], int] = {}
        rows: dict[tuple[object, ...], list[int]] = {}
        native: dict[torch.dtype, list[int]] = {}
        may_be_native = ready()
        if may_be_native and part.z and takes_all(part.w_hat, part.g, part.z, part.offset):
            part.run = Native()
            return [part]
        for i, (w_hat, g, z, offset) in enumerate(zip(part.w_hat, part.g, part.z, part.offset, strict=True)):
            if may_be_native and takes(w_hat, g, z, offset):
                native.setdefault(w_hat.dtype, []).append(i)
                continue
            kind = (w_hat.device, w_hat.dtype, g.dtype, z.dtype)
            sizes[kind] = sizes.get(kind, 0) + w_hat.numel()
            rows.setdefault((*kind, sizes[kind] // (CPU_PART if w_hat.is_cpu else PART)), []).append(i)
        in_c = [part.take(chosen, Native()) for chosen in native.values()]
        return in_c + [part.take(chosen, self) for chosen in rows.values()]

    def gradients(
        self, gs: list[Tensor], w_hats: list[Tensor], zs: list[Tensor], maximize: bool, weight_decay: float
    ) -> list[Tensor]:
        """±g + λ ŵ."""
        if not _uniform(gs, w_hats, zs):
            return super().gradients(gs, w_hats, zs, maximize, weight_decay)
        if maximize:
            gs = list(torch._foreach_neg(gs))
        if weight_decay != 0:
            gs = list(torch._foreach_add(gs, w_hats, alpha=weight_decay))
        return gs

    def add_scaled(
        self, xs: list[Tensor], ys: list[Tensor], scales: list[Tensor], sign: int, seeds: Seeds = None
    ) -> list[Tensor]:
        """Add ± scale · y to x, in place."""
        if not _uniform(xs, ys):
            return super().add_scaled(xs, ys, scales, sign, seeds)
        torch._foreach_addcmul_(xs, ys, scales, value=sign)
        return xs

    def scale(self, xs: list[Tensor], factor: float | Tensor, seeds: Seeds = None) -> list[Tensor]:
        """Multiply x by the factor, in place."""
        if isinstance(factor, Tensor) or not _uniform(xs):
            return super().scale(xs, factor, seeds)
        torch._foreach_mul_(xs, factor)
        return xs

    def average(self, zs: list[Tensor], gs: list[Tensor], weights: list[float | Tensor]) -> list[Tensor]:
        """Average z with g, in place."""
        weight = weights[0]
        if isinstance(weight, Tensor) or any(other != weight for other in weights) or not _uniform(zs, gs):
            return super().average(zs, gs, weights)
        torch._foreach_lerp_(zs, gs, weight)
        return zs

    def assign(self, xs: list[Tensor], values: list[Tensor]) -> list[Tensor]:
        """Copy the values into the tensors."""
        torch._foreach_copy_(xs, values)
        return xs

    def norms(self, zs: list[Tensor]) -> Tensor:
        """‖z‖ of each tensor, in one call where torch's own sums are exact enough: see ROW in plain.py."""
        if zs[0].is_cpu:
            return super().norms(zs)
        return torch.stack(torch._foreach_norm(zs, 2, dtype=scalar_dtype(zs[0].device)))


FOREACH = Foreach()


def _uniform(*lists: list[Tensor]) -> bool:
    """Whether the tensors, alike within each list, share one dtype that is wide enough to compute in."""
    return all(tensors[0].dtype == wide(lists[0][0]) for tensors in lists)
