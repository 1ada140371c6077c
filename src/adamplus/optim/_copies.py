"""Checks, once for each set of parameters, that the norm over all ranks counts every element of the model once.

A layout says which ranks have copies of a part. Two of its assumptions could be false without an error, and the values
of the parameters show it: that parameters on a slice of a mesh are copies over the rest of the mesh, and that the ranks
of a process_group have parts of their own.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.linalg import vector_norm

from ._layout import GROUP, Groups, Layout, is_sharded, local, parameters

SAME = 0.1
"""Copies differ by less than this fraction of their norm. Copies in training drift apart by rounding."""
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}


def wrong_copies(
    layout: Layout, groups: Groups, process_group: Any, gathered: Callable[[Tensor], list[list[int]]]
) -> str | None:
    """Return what is wrong, on all ranks if it is on any, or None."""
    other = _first_slice_that_differs(layout)
    reason = None if other is None else _reason(*layout.slices[other])
    if process_group is None:
        return reason
    sharded = [p for _, _, p in parameters(groups) if is_sharded(p)]
    meshes = [p.device_mesh for p in sharded] + [larger for _, _, larger in layout.slices]
    model = min((mesh.mesh.min().item() for mesh in meshes), default=-1)
    plain = _fingerprint([p for _, _, p in parameters(groups) if not is_sharded(p)])
    row = [plain, _fingerprint(sharded), torch.tensor(model), torch.tensor(reason is not None)]
    ranks = dist.get_process_group_ranks(process_group)
    rows = gathered(torch.stack([number.to(plain) for number in row]))
    if any(is_wrong for _, _, _, is_wrong in rows):
        which = [rank for rank, row in zip(ranks, rows, strict=True) if row[-1]]
        return reason or f"the ranks {which} have parameters that are not the same as copies of them, and raise this"
    # A plain parameter is no copy, by what process_group says. Copies of a DTensor have the same mesh, and so `model`.
    return _twice(ranks, [(row[0], rank) for row, rank in zip(rows, ranks, strict=True)]) or _twice(
        ranks, [(row[1], row[2]) for row in rows]
    )


def _first_slice_that_differs(layout: Layout) -> int | None:
    """Number of the first parameter on a slice that is not the same on the rest of the larger mesh."""
    by_meshes: dict[Any, list[int]] = {}
    for i, (_, p, larger) in enumerate(layout.slices):
        by_meshes.setdefault((p.device_mesh, larger), []).append(i)
    found: list[int] = []
    for (mesh, larger), numbers in by_meshes.items():
        ws = [local(layout.slices[i][1].detach()) for i in numbers]
        ws = [torch.view_as_real(w) if w.is_complex() else w for w in ws]
        sums = torch.stack([w.sum(dtype=torch.float64) for w in ws])
        squares = torch.stack([vector_norm(w, dtype=torch.float64).square() for w in ws])
        sums, squares = _sum_over(mesh, torch.stack([sums, squares]))
        mean, of_squares, square = _sum_over(larger, torch.stack([sums, sums.square(), squares])) / larger.size()
        differs = of_squares - mean.square() > SAME**2 * square
        found += [numbers[i] for i in differs.nonzero().flatten().tolist()]
    return min(found, default=None)


def _sum_over(mesh: Any, values: Tensor) -> Tensor:
    values = values.to(mesh.device_type)
    for d in range(mesh.ndim):
        dist.all_reduce(values, group=mesh.get_group(d))
    return values


def _reason(what: str, p: Any, larger: Any) -> str:
    return (
        f"{what} is on the mesh {p.device_mesh}, a slice of the mesh {larger} of other parameters, and is not the same "
        "on the rest of it. If ranks have copies of it, give them the same values. If they have parts of their own, "
        "make it one DTensor on the whole mesh"
    )


def _fingerprint(params: list[Any]) -> Tensor:
    """Number for the bits of parameters and gradients. 0 if no gradient could tell a copy from a part of its own."""
    number = torch.zeros((), dtype=torch.int64, device=local(params[0]).device if params else "cpu")
    for p in params:
        if p.grad is None or p.grad.layout != torch.strided or local(p).numel() == 0:
            continue
        w, g = _bits(p.detach()), _bits(p.grad)
        terms = w.sum(dtype=torch.int64) * 1_000_003 + g.sum(dtype=torch.int64)
        # Parts of their own may all begin at 1, and have gradients of 1.
        number = torch.where((g == g[0]).all(), number, number * 8_191 + terms.to(number.device))
    return number


def _bits(tensor: Tensor) -> Tensor:
    """The bits of this rank's part of a tensor, as integers."""
    part = local(tensor).contiguous().flatten()
    return (torch.view_as_real(part).flatten() if part.is_complex() else part).view(INTEGERS[part.element_size()])


def _twice(ranks: list[int], rows: list[tuple[int, int]]) -> str | None:
    """What is wrong if two ranks of different models have equal fingerprints."""
    seen: dict[int, tuple[int, int]] = {}
    for rank, (fingerprint, model) in zip(ranks, rows, strict=True):
        first, model_of_first = seen.setdefault(fingerprint, (rank, model))
        if fingerprint != 0 and model != model_of_first:
            return (
                f"process_group would count elements of the model twice: the ranks {first} and {rank} have the same "
                f"parameters with the same gradients. {GROUP.capitalize()}, or none under DistributedDataParallel"
            )
    return None
