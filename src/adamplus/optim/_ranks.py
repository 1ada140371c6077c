"""How a model is split over ranks, and the sums over ranks that make one vector of it again.

Each rank steps what it has: of a DTensor the local tensor. Only squares go from rank to rank, one small message a step
and set of ranks. What several ranks have alike is counted by each of them as its share of one.
"""

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch
import torch.distributed as dist
from torch import Tensor

Groups = Sequence[dict[str, Any]]
Scope = tuple[int, int]  # group and parameter that have a norm of their own; −1 for all of them together

PLAIN = (Tensor, torch.nn.Parameter)
GROUP = "pass the process_group of the ranks that together have one replica of the model"
HINT = "Each rank takes every step in train mode, with a process_group of the same ranks"


class RanksDisagree(RuntimeError):  # noqa: N818 - what it says is the error
    """Another rank could not take the step that this one was taking."""


class Channel(NamedTuple):
    """A sum over ranks."""

    group: Any
    ranks: list[int]
    devices: list[str]
    """That its messages can be on."""


class Share(NamedTuple):
    """What a rank has of a parameter: which sum over ranks joins it (none: −1), and how many of these have the same."""

    channel: int = -1
    copies: int = 1
    number: int = 0
    """Of the shard, so that no two of them are rounded by the same random numbers."""


ALONE = Share()
"""Of a parameter that each rank has whole."""


def is_split(tensor: Tensor) -> bool:
    """Whether it is a DTensor: a tensor that knows which part of it this rank has."""
    return type(tensor) not in PLAIN and hasattr(tensor, "device_mesh")


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this rank has; the tensor itself, unless it is a DTensor."""
    if not is_split(tensor):
        return tensor
    own: Any = tensor
    part = own.to_local() if torch.compiler.is_compiling() else own._local_tensor
    return part.wait() if hasattr(part, "wait") else part  # still on its way from other ranks


def local_gradient(g: Tensor, p: Tensor) -> Tensor:
    """This rank's part of p's gradient, split as p is: what ranks have yet to add up is added up, once."""
    own: Any = g
    if is_split(g) != is_split(p) or (is_split(g) and own.device_mesh != cast("Any", p).device_mesh):
        raise RuntimeError("a gradient is a DTensor and its parameter is none, or on another mesh: make them alike")
    if is_split(g) and own.placements != cast("Any", p).placements:
        own = own.redistribute(own.device_mesh, cast("Any", p).placements)
        if not torch.compiler.is_compiling():  # pragma: no branch - dynamo traces without running
            p.grad = own
    return local(own)


class Joint:
    """The ranks that share parameters, and their sums."""

    def __init__(self, groups: Groups, process_group: Any) -> None:
        self.held = _key(groups, process_group)
        self.device = _device(groups)
        self.channels: list[Channel] = []
        self.scopes: list[list[Scope]] = []  # what each channel sums: the same on all ranks, whatever has gradients
        self.shares = [[ALONE for _ in group["params"]] for group in groups]
        self.looked = self.summed = False
        if process_group is not None:
            self.channels.append(_channel(process_group))
            self.scopes.append([(-1, -1)])  # which is all that it is for
            self.shares = [[Share(0) for _ in group["params"]] for group in groups]

    def look(self, groups: Groups, process_group: Any) -> None:
        """Look at the meshes of DTensors; raise where they cannot make one vector."""
        split = [(i, j, cast("Any", p)) for i, j, p in _parameters(groups) if is_split(p)]
        for i, j, p in split:
            refuse_other_ranks(p, f"parameter {j} of group {i}", process_group)
        sums = _sums_of_meshes([p for _, _, p in split], self.channels, process_group)
        known: list[dict[Scope, None]] = [dict.fromkeys(scopes) for scopes in self.scopes]
        known += [{} for _ in self.channels[len(known) :]]
        for i, j, p in split:
            self.shares[i][j] = own = _share(p.device_mesh, p.placements, *sums[p.device_mesh])
            if own.channel >= 0:
                known[own.channel][scope(groups[i], i, j)] = None
        self.scopes = [list(scopes) for scopes in known]
        self.looked = True

    def is_for(self, groups: Groups, process_group: Any) -> bool:
        """Whether it has looked at these parameters, and found nothing to refuse."""
        now = _key(groups, process_group)
        return self.looked and len(now) == len(self.held) and all(map(operator.is_, now, self.held))

    def sum(self, squares: dict[Scope, dict[int, Tensor]], home: Tensor) -> dict[Scope, Tensor]:
        """Σ z² of each scope over all ranks; `squares` has this rank's by scope and channel."""
        zero = torch.zeros((), dtype=home.dtype, device=self.device)
        messages: list[Tensor] = []
        for channel, scopes in enumerate(self.scopes):
            mine = [squares[key][channel].to(zero) if channel in squares.get(key, ()) else zero for key in scopes]
            messages.append(self._reduced(channel, torch.stack([*mine, zero, zero])))
        totals: dict[Scope, list[Tensor]] = {
            key: [own[-1].to(home)] if -1 in own else [] for key, own in squares.items()
        }
        for channel, message in enumerate(messages):  # when all are sent, or others would wait for the next
            self.check(channel, message[-2:])
            for key, total in zip(self.scopes[channel], message.to(home).unbind(), strict=False):
                totals.setdefault(key, []).append(total)
        return {key: torch.stack(parts).sum() for key, parts in totals.items() if parts}

    def tell(self, in_eval_mode: bool) -> None:
        """Take part in the sums with nothing but the news that this rank cannot step, so that no other waits for it."""
        if self.summed:
            return
        for channel, scopes in enumerate(self.scopes):
            message = torch.zeros(len(scopes) + 2, dtype=torch.float64, device=self.device)
            message[-2 if in_eval_mode else -1] = 1.0
            self._reduced(channel, message)

    def check(self, channel: int, news: Tensor) -> None:
        """Raise where other ranks cannot step; on an accelerator without waiting, by an assertion on the device."""
        if torch.compiler.is_compiling() or not news.is_cpu:
            torch._assert_async(news.sum() == 0, f"another rank cannot take this step. {HINT}")
            return
        in_eval_mode, failed = (round(count) for count in news.tolist())
        if in_eval_mode or failed:
            why = f"{in_eval_mode} in eval mode" if in_eval_mode else f"{failed} with an error, which it tells itself"
            ranks = self.channels[channel].ranks
            raise RanksDisagree(f"of the ranks {ranks}, not all can take this step: {why}. {HINT}")

    def _reduced(self, channel: int, message: Tensor) -> Tensor:
        group, ranks, devices = self.channels[channel]
        if message.device.type not in devices:  # parameters that are offloaded to the CPU
            message = message.to(devices[0])
        if torch.compiler.is_compiling():  # pragma: no cover - dynamo traces without running
            dist.all_reduce(message, group=group)
            return message
        self.summed = True
        try:
            dist.all_reduce(message, group=group)
        except RuntimeError as error:
            raise RanksDisagree(f"the norm over the ranks {ranks} was not summed up: {error}. {HINT}") from error
        return message


def scope(group: dict[str, Any], i: int, j: int) -> Scope:
    """Which norm parameter j of a group, the i-th, is part of."""
    kind = group["norm_scope"]
    return (-1 if kind == "global" else i, j if kind == "tensor" else -1)


def refuse_foreign_group(process_group: Any) -> None:
    """Raise for what is no group, and for what new_group() gives to ranks that it is not for."""
    if process_group is None or isinstance(process_group, dist.ProcessGroup):
        return
    if process_group == dist.GroupMember.NON_GROUP_MEMBER:
        raise RuntimeError(
            f"process_group does not contain this rank, {dist.get_rank()}: {GROUP}, or build no optimizer here"
        )
    raise TypeError(f"process_group must be None or a torch.distributed.ProcessGroup, got {process_group!r}: {GROUP}")


def refuse_other_ranks(p: Any, what: str, process_group: Any) -> None:
    """Raise where the ranks that have a DTensor are not those that the norm is summed over."""
    mesh = _ranks(p.device_mesh)
    everyone = tuple(dist.get_process_group_ranks(process_group or dist.group.WORLD))
    if dist.get_rank() not in mesh:
        raise RuntimeError(f"{what} is on a mesh of the ranks {list(mesh)}, and this is rank {dist.get_rank()}")
    if process_group is None and set(mesh) != set(everyone):
        raise RuntimeError(
            f"{what} is on a mesh of the ranks {list(mesh)}, and there are {len(everyone)} ranks: the others may have "
            f"parameters, too. {GROUP.capitalize()}"
        )
    if not set(mesh) <= set(everyone):
        raise RuntimeError(
            f"{what} is on a mesh of the ranks {list(mesh)}, and process_group has the ranks {list(everyone)}: {GROUP}"
        )
    if any(placement.is_partial() for placement in p.placements):
        raise RuntimeError(f"{what} has the placements {p.placements}, and so no value yet: redistribute it first")


def _key(groups: Groups, process_group: Any) -> list[Any]:
    """The objects that sums over ranks depend on."""
    return [process_group, *(group["norm_scope"] for group in groups), *(p for _, _, p in _parameters(groups))]


def _device(groups: Groups) -> torch.device:
    """Where messages are: with the parameters, or where a rank without any probably has the others'."""
    if (p := next((p for _, _, p in _parameters(groups)), None)) is not None:
        return p.device
    return torch.device("cuda" if torch.cuda.is_initialized() else "cpu")


def _parameters(groups: Groups) -> Any:
    return ((i, j, p) for i, group in enumerate(groups) for j, p in enumerate(group["params"]))


def _sums_of_meshes(params: Sequence[Any], channels: list[Channel], process_group: Any) -> dict[Any, Any]:
    """For each mesh its channel, and the dimensions that it is summed over; `channels` gets those that are new."""
    found: dict[Any, tuple[int, tuple[int, ...]]] = {}
    for mesh in dict.fromkeys(p.device_mesh for p in params):
        everything = tuple(range(mesh.ndim))
        split = {d for p in params if p.device_mesh == mesh for d in everything if _is_shard(p.placements[d])}
        dims = tuple(sorted(d for d in split if mesh.size(d) > 1))
        if process_group is not None:
            channel, dims = channels[0], everything
        elif not dims:
            found[mesh] = (-1, ())
            continue
        elif len(dims) == 1 and mesh.ndim > 1:
            channel = _channel(mesh.get_group(dims[0]))
        else:  # one sum over all ranks, for all such meshes: refuse_other_ranks has seen that they have all ranks
            channel, dims = _channel(dist.group.WORLD), everything
        if channel not in channels:
            channels.append(channel)
        found[mesh] = (channels.index(channel), dims)
    return found


def _channel(group: Any) -> Channel:
    return Channel(group, dist.get_process_group_ranks(group), [device.type for device in group._device_types])


def _is_shard(placement: Any) -> bool:
    return not (placement.is_replicate() or placement.is_partial())


@lru_cache(maxsize=4096)
def _share(mesh: Any, placements: tuple[Any, ...], channel: int, dims: tuple[int, ...]) -> Share:
    copies = math.prod(mesh.size(d) for d in dims if not _is_shard(placements[d]))
    number = 0
    for d, coordinate in enumerate(mesh.get_coordinate()):
        if _is_shard(placements[d]):
            number = number * mesh.size(d) + coordinate
    return Share(channel, copies, number)


@lru_cache(maxsize=256)
def _ranks(mesh: Any) -> tuple[int, ...]:
    return tuple(sorted(mesh.mesh.flatten().tolist()))
