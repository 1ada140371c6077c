"""‖z‖ over all tensors of a scope: the one number that ties all parameters together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.linalg import vector_norm

from ._layout import Scope, scope
from ._ranks import Joint

if TYPE_CHECKING:
    from ._algorithm import Group


def scope_norms(groups: Sequence["Group"], joint: Joint | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """Norm that divides the step of each group: a scalar, or with `norm_scope="tensor"` one for each tensor.

    And what shows, alike on all ranks, whether any norm is not finite: all norms, or their squares.
    """
    if joint is not None:
        return _joint_norms(groups, joint)
    tensor_norms = [_in_order(group) for group in groups]
    homes = [group.settings["record"] for group in groups]
    scopes = [group.settings["norm_scope"] for group in groups]
    everything = combine([n for scope, ns in zip(scopes, tensor_norms, strict=True) if scope == "global" for n in ns])
    found = [
        everything.to(home) if scope == "global" else combine(ns).to(home) if scope == "group" else _join(ns, home)
        for scope, ns, home in zip(scopes, tensor_norms, homes, strict=True)
    ]
    return found, found


def not_finite(norms: list[Tensor]) -> Tensor:
    """Flag: whether any norm is inf or NaN."""
    return torch.stack([norm.sum().to(norms[0].device) for norm in norms]).sum().isfinite().logical_not()


def _joint_norms(groups: Sequence["Group"], joint: Joint) -> tuple[list[Tensor], list[Tensor]]:
    """The same if ranks have a part of the parameters each: the squares of all ranks are summed."""
    squares: dict[Scope, Tensor] = {}
    for group in groups:
        for part in group.parts:
            own = part.norms.to(group.settings["record"]).square() / part.copies
            for i, square in (
                zip(part.index, own, strict=True) if _is_per_tensor(group) else [(part.index[0], own.sum())]
            ):
                key = scope(group.settings, group.number, group.numbers[i])
                squares[key] = squares.get(key, 0) + square
    home = groups[0].settings["record"][0] if groups else torch.zeros((), dtype=torch.float64, device="cpu")
    totals = joint.sum(squares, home)
    found: list[Tensor] = []
    for group in groups:
        home = group.settings["record"]
        rows = [scope(group.settings, group.number, j) for j in (group.numbers if _is_per_tensor(group) else (-1,))]
        norms = torch.stack([totals[key].to(home) for key in rows]).sqrt()
        found.append(norms if _is_per_tensor(group) else norms[0])
    return found, list(totals.values())


def _is_per_tensor(group: "Group") -> bool:
    return group.settings["norm_scope"] == "tensor"


def combine(norms: list[Tensor]) -> Tensor:
    """Norm of a vector from the norms of its parts: on each device first, then together."""
    by_device: dict[torch.device, list[Tensor]] = {}
    for some in norms:
        by_device.setdefault(some.device, []).append(some)
    totals = [vector_norm(torch.cat(ns)) for ns in by_device.values()]
    if not totals:
        return torch.zeros((), dtype=torch.float64, device="cpu")
    return totals[0] if len(totals) == 1 else vector_norm(torch.stack([total.to(totals[0]) for total in totals]))


def scalar_dtype(device: torch.device) -> torch.dtype:
    """Dtype of scalars on a device: float64, which costs nothing, or float32 on Apple's GPUs, which have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def _in_order(group: "Group") -> list[Tensor]:
    """Norms of a group's tensors, in their order: one vector, or a vector of one for each tensor."""
    if len(group.parts) == 1:
        return [group.parts[0].norms]
    by_index = {i: n for part in group.parts for i, n in zip(part.index, part.norms.split(1), strict=True)}
    return [by_index[i] for i in range(len(by_index))]


def _join(norms: list[Tensor], like: Tensor) -> Tensor:
    return torch.cat([n.to(like) for n in norms])
