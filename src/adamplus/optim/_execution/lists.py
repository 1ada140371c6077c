"""A step in lists of tensors: each group's tensors become parts, and `adam_plus` takes the step."""

from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._algorithm import Group, Part, adam_plus
from .._layout import ALONE, ORDINARY, Share, local, local_gradient
from .._ranks import Joint
from .._state import count_skipped, refuse_other_data
from .plain import Plain
from .rounding import salt, seeds
from .skipping import host_decides, skippable

Groups = list[dict[str, Any]]
"""Parameter groups, as torch.optim has them."""
State = dict[Tensor, dict[str, Tensor]]
"""State of each parameter: z, offset and step."""


class Columns(NamedTuple):
    """The parameters of a group that have a gradient, with their gradients and state."""

    params: list[Tensor]
    grads: list[Tensor]
    zs: list[Tensor]
    offsets: list[Tensor]
    steps: list[Tensor]
    directions: list[Tensor]
    """D(z) of each, if SpectralPlus keeps it. Empty otherwise."""


@dataclass
class Gathered:
    """Groups and tensors of one step, and what joins and scales them."""

    groups: Groups
    columns: list[Columns]
    """One entry for each group."""
    state: State
    joint: Joint | None
    """The ranks that share the parameters."""
    scale: Tensor | None
    """GradScaler's scale, which the step has to divide by."""
    found_inf: Tensor | None
    """GradScaler's flag: the step does nothing if it is not 0."""
    captured: list[Any]
    """Plans that captured CUDA graphs replay, which have to live as long as the optimizer."""
    torn: bool = False
    """Whether the step failed after it had begun to write."""


class Lists:
    """Takes a step in lists of tensors, whose operations are `run`'s."""

    def __init__(self, run: Plain) -> None:
        self.run = run

    def step(self, gathered: Gathered) -> None:
        """Take a step."""
        self.take(gathered)

    def take(self, gathered: Gathered) -> list[Group]:
        """Take a step, and return the groups with their parts."""
        if gathered.found_inf is not None and any(columns.params for columns in gathered.columns):
            raise RuntimeError("GradScaler leaves unscaling to fused kernels, and this step has none: leave fused=None")
        groups = self._groups(gathered)
        for columns in gathered.columns:
            for p, z in zip(columns.params, columns.zs, strict=True):
                if p.shape != z.shape:
                    refuse_other_data(p, z)
        if not any(group.parts for group in groups) and gathered.joint is None:
            return groups
        on_host = False
        if skips := any(group["skip_nonfinite"] for group in gathered.groups):
            on_host = host_decides(gathered.groups, chain(*(columns.params for columns in gathered.columns)))
            for part in (part for group in groups for part in group.parts):
                part.run = skippable(part.run, self.run, on_host)
        try:
            skip = adam_plus(groups, gathered.joint, skips, on_host)
        except Exception:
            gathered.torn = any(part.written for group in groups for part in group.parts)
            raise
        if skip is not None:
            count_skipped((group["record"] for group in gathered.groups), skip)
        return groups

    def _groups(self, gathered: Gathered) -> list[Group]:
        """Groups to step. One without gradients takes part if it shares a norm, so that its record is updated."""
        groups: list[Group] = []
        for i, (settings, columns) in enumerate(zip(gathered.groups, gathered.columns, strict=True)):
            numbers = [j for j, p in enumerate(settings["params"]) if p.grad is not None]
            joint = gathered.joint
            if numbers or settings["norm_scope"] == "global" or (joint and settings["norm_scope"] == "group"):
                shares = [ALONE] * len(numbers) if joint is None else [joint.share(i, j) for j in numbers]
                group = Group(settings, i, numbers, [])
                group.parts = self._parts(group, shares, columns)
                groups.append(group)
        return groups

    def _parts(self, group: Group, shares: list[Share], columns: Columns) -> list[Part]:
        """Parts of a group. Equally many ranks have the tensors of a part."""
        part = whole(group, shares, columns, self.run)
        alike: dict[int, list[int]] = {}
        for row, own in enumerate(shares):
            alike.setdefault(own.copies, []).append(row)
        found: list[Part] = []
        for copies, rows in alike.items():
            some = part if len(alike) == 1 else part.take(rows, self.run)
            some.copies = copies
            found += self.run.parts(some)
        return found


def whole(group: Group, shares: list[Share], columns: Columns, run: Plain) -> Part:
    """One part of all tensors of a group that have a gradient."""
    params, grads, zs, offsets, steps, directions = columns
    if _is_ordinary(params, grads, zs):
        w_hat, g, z = params, grads, zs
    else:
        w_hat, z = ([real(local(t)) for t in tensors] for tensors in (params, zs))
        g = [real(local_gradient(g, p)) for g, p in zip(grads, params, strict=True)]
    part = Part(w_hat, g, z, offsets, steps, list(range(len(zs))), run, direction=list(map(local, directions)))
    if group.settings["stochastic_rounding"]:
        salts = [salt(group.number, j, own.number) for j, own in zip(group.numbers, shares, strict=True)]
        part.seeds = seeds(salts, steps)
    return part


def real(tensor: Tensor) -> Tensor:
    """View to compute with: complex tensors as pairs of real ones, as in torch.optim, and scalars as vectors.

    torch.compile loses what is written to 0-dim float64 tensors on a CPU (torch 2.13, its own Adam included).
    """
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.unsqueeze(0) if tensor.ndim == 0 else tensor


def unreal(view: Tensor, like: Tensor) -> Tensor:
    """Inverse of `real`, for a new tensor."""
    return torch.view_as_complex(view) if like.is_complex() else view.reshape(like.shape)


def _is_ordinary(*columns: list[Tensor]) -> bool:
    """Whether these can be computed with as they are. Calling `local` and `real` for each would take longer."""
    if torch.compiler.is_compiling():  # pragma: no cover - dynamo traces without running
        return False
    tensors = list(chain.from_iterable(columns))
    has_real_vectors = all(map(Tensor.dim, tensors)) and not any(map(Tensor.is_complex, tensors))
    return has_real_vectors and {*map(type, tensors)} <= {*ORDINARY}
