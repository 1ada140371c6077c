"""How a model is divided over ranks, and the sums over ranks that give the norm of all of it.

Each rank steps its own part: the local tensor of a DTensor. Only squares go from rank to rank, in one small message
per step and set of ranks. Ranks that hold copies of a tensor each count their fraction of it.
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
Scope = tuple[int, int]
"""Group and parameter that a norm is over; −1 stands for all of them."""

ORDINARY = (Tensor, torch.nn.Parameter)
GROUP = "pass the process_group of the ranks that together have one replica of the model"
HINT = "Each rank takes every step in train mode, with a process_group of the same ranks"


class RanksDisagree(RuntimeError):  # noqa: N818 - the name is the error
    """Raised if another rank cannot take the step that this one is taking."""


class Channel(NamedTuple):
    """Process group that a sum goes over."""

    group: Any
    ranks: list[int]
    devices: list[str]
    """Types of device that its messages can be on."""


class Share(NamedTuple):
    """This rank's part of a parameter."""

    channel: int = -1
    """Index of the sum over ranks that joins the parts; −1 if this rank has all of it."""
    copies: int = 1
    """Number of ranks in that sum that hold the same part."""
    number: int = 0
    """Number of the part, so that no two parts are rounded by the same random numbers."""


ALONE = Share()
"""Share of a parameter that this rank has whole."""


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor, which knows this rank's part of it."""
    return type(tensor) not in ORDINARY and hasattr(tensor, "device_mesh")


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a tensor: the local tensor of a DTensor, or the tensor itself."""
    if not is_sharded(tensor):
        return tensor
    own: Any = tensor
    part = own.to_local() if torch.compiler.is_compiling() else own._local_tensor
    return part.wait() if hasattr(part, "wait") else part  # it may still be on its way from other ranks


def local_gradient(g: Tensor, p: Tensor) -> Tensor:
    """This rank's part of p's gradient, sharded as p is. Partial sums are added over the ranks, once."""
    own: Any = g
    if is_sharded(g) != is_sharded(p) or (is_sharded(g) and own.device_mesh != cast("Any", p).device_mesh):
        raise RuntimeError("a gradient and its parameter are not DTensors on the same mesh: make them alike")
    if is_sharded(g) and own.placements != cast("Any", p).placements:
        own = own.redistribute(own.device_mesh, cast("Any", p).placements)
        if not torch.compiler.is_compiling():  # pragma: no branch - dynamo traces without running
            p.grad = own
    return local(own)


class Joint:
    """The ranks that share parameters, and the sums over them that make ‖z‖ the norm of the whole model."""

    def __init__(self, groups: Groups, process_group: Any) -> None:
        self.held = _key(groups, process_group)
        self.device = _device(groups)
        self.channels: list[Channel] = []
        self.scopes: list[list[Scope]] = []  # summed by each channel: the same on all ranks
        self.shares = [[ALONE for _ in group["params"]] for group in groups]
        self.looked = self.summed = False
        if process_group is not None:
            self.channels.append(_channel(process_group))
            self.scopes.append([(-1, -1)])  # process_group joins the global norm alone
            self.shares = [[Share(0) for _ in group["params"]] for group in groups]

    def look(self, groups: Groups, process_group: Any) -> None:
        """Read the meshes of DTensors. Raise if their parts cannot make up one vector."""
        sharded = [(i, j, cast("Any", p)) for i, j, p in _parameters(groups) if is_sharded(p)]
        for i, j, p in sharded:
            refuse_other_ranks(p, f"parameter {j} of group {i}", process_group)
        sums = _sums_of_meshes([p for _, _, p in sharded], self.channels, process_group)
        known: list[dict[Scope, None]] = [dict.fromkeys(scopes) for scopes in self.scopes]
        known += [{} for _ in self.channels[len(known) :]]
        for i, j, p in sharded:
            self.shares[i][j] = own = _share(p.device_mesh, p.placements, *sums[p.device_mesh])
            if own.channel >= 0:
                known[own.channel][scope(groups[i], i, j)] = None
        self.scopes = [list(scopes) for scopes in known]
        self.looked = True

    def is_for(self, groups: Groups, process_group: Any) -> bool:
        """Whether it was made for these parameters and has read their meshes without an error."""
        now = _key(groups, process_group)
        return self.looked and len(now) == len(self.held) and all(map(operator.is_, now, self.held))

    def sum(self, squares: dict[Scope, dict[int, Tensor]], home: Tensor) -> dict[Scope, Tensor]:
        """Σ z² of each scope over all ranks. `squares` has this rank's by scope and channel."""
        zero = torch.zeros((), dtype=home.dtype, device=self.device)
        messages: list[Tensor] = []
        for channel, scopes in enumerate(self.scopes):
            mine = [squares[key][channel].to(zero) if channel in squares.get(key, ()) else zero for key in scopes]
            messages.append(self._reduced(channel, torch.stack([*mine, zero, zero])))  # with the flags of `check`
        totals: dict[Scope, list[Tensor]] = {
            key: [own[-1].to(home)] if -1 in own else [] for key, own in squares.items()
        }
        for channel, message in enumerate(messages):  # after all are sent, or other ranks would wait for the next
            self.check(channel, message[-2:])
            for key, total in zip(self.scopes[channel], message.to(home).unbind(), strict=False):
                totals.setdefault(key, []).append(total)
        return {key: torch.stack(parts).sum() for key, parts in totals.items() if parts}

    def decline(self, in_eval_mode: bool) -> None:
        """Take part in the sums only to say that this rank cannot step, so that no other rank waits for it."""
        if self.summed:
            return
        for channel, scopes in enumerate(self.scopes):
            message = torch.zeros(len(scopes) + 2, dtype=torch.float64, device=self.device)
            message[-2 if in_eval_mode else -1] = 1.0
            self._reduced(channel, message)

    def check(self, channel: int, flags: Tensor) -> None:
        """Raise if other ranks cannot step. On an accelerator, an assertion on the device does it without waiting."""
        if torch.compiler.is_compiling() or not flags.is_cpu:
            torch._assert_async(flags.sum() == 0, f"another rank cannot take this step. {HINT}")
            return
        in_eval_mode, failed = (round(count) for count in flags.tolist())
        if in_eval_mode or failed:
            why = f"{in_eval_mode} in eval mode" if in_eval_mode else f"{failed} with an error, which that rank raises"
            ranks = self.channels[channel].ranks
            raise RanksDisagree(f"of the ranks {ranks}, not all can take this step: {why}. {HINT}")

    def _reduced(self, channel: int, message: Tensor) -> Tensor:
        group, ranks, devices = self.channels[channel]
        if message.device.type not in devices:  # parameters may be offloaded to the CPU
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
    """Scope of the norm that parameter j of group i is part of."""
    kind = group["norm_scope"]
    return (-1 if kind == "global" else i, j if kind == "tensor" else -1)


def refuse_process_group(process_group: Any) -> None:
    """Raise for anything but a process group that contains this rank."""
    if process_group is None or isinstance(process_group, dist.ProcessGroup):
        return
    if process_group == dist.GroupMember.NON_GROUP_MEMBER:
        raise RuntimeError(
            f"process_group does not contain this rank, {dist.get_rank()}: {GROUP}, or build no optimizer here"
        )
    raise TypeError(f"process_group must be None or a torch.distributed.ProcessGroup, got {process_group!r}: {GROUP}")


def refuse_other_ranks(p: Any, what: str, process_group: Any) -> None:
    """Raise if the ranks that hold a DTensor are not those that the norm is summed over."""
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
        raise RuntimeError(f"{what} has the placements {p.placements}, which are partial sums: redistribute it first")


def _key(groups: Groups, process_group: Any) -> list[Any]:
    """Objects that the sums over ranks depend on."""
    return [process_group, *(group["norm_scope"] for group in groups), *(p for _, _, p in _parameters(groups))]


def _device(groups: Groups) -> torch.device:
    """Device of messages: that of the parameters, or a guess for a rank without any."""
    if (p := next((p for _, _, p in _parameters(groups)), None)) is not None:
        return p.device
    return torch.device("cuda" if torch.cuda.is_initialized() else "cpu")


def _parameters(groups: Groups) -> Any:
    return ((i, j, p) for i, group in enumerate(groups) for j, p in enumerate(group["params"]))


def _sums_of_meshes(params: Sequence[Any], channels: list[Channel], process_group: Any) -> dict[Any, Any]:
    """Channel and summed dimensions of each mesh. New channels are appended to `channels`."""
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
        else:  # one sum over all ranks for all such meshes: refuse_other_ranks has checked that they have all ranks
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
