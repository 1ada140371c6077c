"""‖z‖ over everything that one step moves: the one number that ties all parameters together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.linalg import vector_norm

from ._execution.native import Table, in_memory_order, ready, takes
from ._ranks import Joint, Scope, scope

if TYPE_CHECKING:
    from ._algorithm import Batch

# One float32 sum over a whole tensor is off by 1e-3 at 2·10⁷ elements on a CPU (torch 2.13, always downwards); sums of
# 4,096 elements that are put together in float64 are off by less than 1e-7, in the same time.
ROW = 4096
# Where ‖z‖ is not between these, squares may have left float32's range: it is taken again in float64, ten times slower.
SAFE = (1e-10, 1e18)


def scope_norms(batches: Sequence["Batch"], joint: Joint | None = None) -> list[Tensor]:
    """For each batch the norm that divides its step: a scalar, or under `norm_scope="tensor"` one a tensor."""
    if joint is not None:
        return _joint_norms(batches, joint)
    tensor_norms = [_in_order(batch) for batch in batches]
    homes = [batch.group["record"] for batch in batches]
    scopes = [batch.group["norm_scope"] for batch in batches]
    everything = combine([n for scope, ns in zip(scopes, tensor_norms, strict=True) if scope == "global" for n in ns])
    return [
        everything.to(home) if scope == "global" else combine(ns).to(home) if scope == "group" else _join(ns, home)
        for scope, ns, home in zip(scopes, tensor_norms, homes, strict=True)
    ]


def _joint_norms(batches: Sequence["Batch"], joint: Joint) -> list[Tensor]:
    """The same where ranks have a part each: squares, of which all ranks' are added up."""
    squares: dict[Scope, dict[int, Tensor]] = {}
    for batch in batches:
        for part in batch.parts:
            own = part.norms.to(batch.group["record"]).square() / part.share.copies
            for i, square in zip(part.index, own, strict=True) if _tensors(batch) else [(part.index[0], own.sum())]:
                channels = squares.setdefault(scope(batch.group, batch.number, batch.numbers[i]), {})
                channels[part.share.channel] = channels.get(part.share.channel, 0) + square
    home = batches[0].group["record"][0] if batches else torch.zeros((), dtype=torch.float64, device="cpu")
    totals = joint.sum(squares, home)
    found: list[Tensor] = []
    for batch in batches:
        home = batch.group["record"]
        rows = [scope(batch.group, batch.number, j) for j in (batch.numbers if _tensors(batch) else (-1,))]
        norms = torch.stack([totals[key].to(home) if key in totals else home.new_zeros(()) for key in rows]).sqrt()
        found.append(norms if _tensors(batch) else norms[0])
    return found


def _tensors(batch: "Batch") -> bool:
    return batch.group["norm_scope"] == "tensor"


def combine(norms: list[Tensor]) -> Tensor:
    """The norm of the vector that parts with these norms make up: on each device first, then together."""
    by_device: dict[torch.device, list[Tensor]] = {}
    for some in norms:
        by_device.setdefault(some.device, []).append(some)
    totals = [vector_norm(torch.cat(ns)) for ns in by_device.values()]
    if not totals:
        return torch.zeros((), dtype=torch.float64, device="cpu")
    return totals[0] if len(totals) == 1 else vector_norm(torch.stack([total.to(totals[0]) for total in totals]))


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


def scalar_dtype(device: torch.device) -> torch.dtype:
    """float64, for scalars cost nothing in it; Apple's GPUs have none."""
    return torch.float32 if device.type == "mps" else torch.float64


def _in_order(batch: "Batch") -> list[Tensor]:
    """The norms of a batch's tensors, as vectors: one, or as many as there are tensors to be put in their order."""
    if len(batch.parts) == 1:
        return [batch.parts[0].norms]
    by_index = {i: n for part in batch.parts for i, n in zip(part.index, part.norms.split(1), strict=True)}
    return [by_index[i] for i in range(len(by_index))]


def _join(norms: list[Tensor], like: Tensor) -> Tensor:
    return torch.cat([n.to(like) for n in norms])
