"""‖z‖ over everything that one step moves: the one number that ties all parameters together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.linalg import vector_norm

if TYPE_CHECKING:
    from ._algorithm import Batch

# One float32 sum over a whole tensor is off by 1e-3 at 2·10⁷ elements on a CPU (torch 2.13, always downwards); sums of
# 4,096 elements that are put together in float64 are off by less than 1e-7, in the same time.
ROW = 4096
# Where ‖z‖ is not between these, squares may have left float32's range: it is taken again in float64, ten times slower.
SAFE = (1e-10, 1e18)


def scope_norms(batches: Sequence["Batch"], process_group: Any = None) -> list[Tensor]:
    """For each batch the norm that divides its step: a scalar, or under `norm_scope="tensor"` one a tensor."""
    tensor_norms: list[list[Tensor]] = []
    for batch in batches:
        by_index = {i: n for part in batch.parts for i, n in zip(part.index, part.norms, strict=True)}
        tensor_norms.append([by_index[i] for i in range(len(by_index))])

    homes = [batch.group["record"] for batch in batches]
    scopes = [batch.group["norm_scope"] for batch in batches]
    everything = combine([n for scope, ns in zip(scopes, tensor_norms, strict=True) if scope == "global" for n in ns])
    if process_group is not None:
        square = everything.to(homes[0]).square()
        dist.all_reduce(square, group=process_group)
        everything = square.sqrt()
    return [
        everything.to(home) if scope == "global" else combine(ns).to(home) if scope == "group" else _stack(ns, home)
        for scope, ns, home in zip(scopes, tensor_norms, homes, strict=True)
    ]


def combine(norms: list[Tensor]) -> Tensor:
    """The norm of the vector that parts with these norms make up: on each device first, then together."""
    by_device: dict[torch.device, list[Tensor]] = {}
    for norm in norms:
        by_device.setdefault(norm.device, []).append(norm)
    totals = [vector_norm(torch.stack(ns)) for ns in by_device.values()]
    if not totals:
        return torch.zeros((), dtype=torch.float64)
    return totals[0] if len(totals) == 1 else vector_norm(_stack(totals, totals[0]))


def tensor_norm(z: Tensor) -> Tensor:
    """‖z‖ in the widest precision that z's device has: to about 1e-7 for any size, dtype and magnitude."""
    if hasattr(z, "full_tensor"):  # a DTensor knows which of its shards are replicas
        return cast("Any", vector_norm(z, dtype=scalar_dtype(z.device))).full_tensor()
    if z.numel() <= ROW or not z.is_cpu or torch.compiler.is_compiling():
        return vector_norm(z, dtype=scalar_dtype(z.device))
    z = _flat(z)
    rest = z.numel() % ROW
    rows, tail = z.narrow(0, 0, z.numel() - rest).view(-1, ROW), z.narrow(0, z.numel() - rest, rest)
    norm = vector_norm(vector_norm(rows, dim=1, dtype=torch.promote_types(z.dtype, torch.float32)), dtype=torch.float64)
    if not SAFE[0] < norm.item() < SAFE[1]:
        norm = vector_norm(torch.cat([vector_norm(some.double(), dim=1) for some in rows.split(16)]))
    return torch.hypot(norm, vector_norm(tail, dtype=torch.float64)) if rest else norm


def scalar_dtype(device: torch.device) -> torch.dtype:
    """float64, for scalars cost nothing in it; Apple's GPUs have none."""
    return torch.float32 if device.type == "mps" else torch.float64


def _flat(z: Tensor) -> Tensor:
    """Z as one row in the order that it has in memory: no copy for contiguous, channels-last and transposed tensors."""
    order = sorted(range(z.ndim), key=lambda d: (-z.stride(d), d))
    return z.permute(order).reshape(-1)


def _stack(scalars: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack([s.to(like) for s in scalars])
