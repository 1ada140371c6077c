"""Directions of matrices that are cut over ranks: every rank gets whole matrices, and sends shards of U Vᵀ back.

The matrices are divided among the ranks, so that each of them is orthogonalized once. This takes two all-to-alls: one
with shards of z, and one with shards of U Vᵀ. On a mesh with several sharded dimensions, shards travel along one
dimension after the other, so that no process groups are needed but those of the mesh.

All ranks make the same plan, from shapes and placements alone. While the matrices of one round travel, those of
another are computed.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, product
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ._cuts import Box, Cut, Geometry, boxes
from ._directions import directions
from ._orthogonal import computed_dtype

ROUND = 2**24
"""Elements that a rank computes in a round, unless it is one matrix. 32 MiB travel longer than a message's latency."""

At = tuple[int, ...]
"""Coordinates of a rank along the sharded dimensions of a mesh."""
Layout = tuple[bool, bool, int | tuple[int, ...]]
"""`stacked`, `transposed` and `blocks`: how tensors are read as matrices (`_directions.matrices`)."""


class Unit(NamedTuple):
    """Matrices that one rank computes: a range of a tensor along one axis."""

    tensor: int
    axis: int
    first: int
    last: int
    shape: tuple[int, ...]
    blocks: int | tuple[int, ...]
    """Blocks that d_out consists of in this range."""
    cost: int
    """Number that is proportional to the operations of U Vᵀ."""


class Piece(NamedTuple):
    """Part of a unit in one rank's shard. Pieces for the same rank are sent in this order."""

    unit: int
    at: At
    number: int


class Phase(NamedTuple):
    """An all-to-all along one dimension, and the same in reverse on the way back."""

    order: list[int]
    """The pieces that this rank has, in the order in which it sends them."""
    leaving: list[int]
    """Number of elements of each, in that order."""
    arriving: list[int]
    """Number of elements of each piece that this rank receives."""
    sent: list[int]
    """Number of elements for each rank."""
    received: list[int]
    """Number of elements from each rank."""


class Round(NamedTuple):
    """Matrices that travel together."""

    sources: list[tuple[int, Box]]
    """Pieces of this rank's shards: number of the tensor, and the piece."""
    phases: list[Phase]
    units: list[Unit]
    """What this rank computes."""
    targets: list[tuple[int, Box]]
    """The pieces that arrive: position in `units`, and the piece."""


@torch.no_grad()
def exchanged_directions(zs: Sequence[Tensor], cuts: Sequence[Cut], group: dict[str, Any]) -> list[Tensor]:
    """D(z) of each shard: the shard of D of the whole tensor. All ranks of the meshes have to call this.

    Args:
        zs: this rank's shards, on one device and of one dtype.
        cuts: how their tensors are cut.
        group: settings as `directions` takes them.
    """
    results = [torch.empty_like(z, dtype=computed_dtype(z)) for z in zs]
    together: dict[tuple[Any, tuple[int, ...]], list[int]] = {}
    for i, cut in enumerate(cuts):
        together.setdefault((cut.mesh, cut.dims), []).append(i)
    waiting: list[Iterator[bool]] = []
    for (mesh, dims), rows in together.items():
        layout = group["stacked"], group["transposed"], group["blocks"]
        rounds = _plan(tuple(cuts[i].geometry for i in rows), layout, cuts[rows[0]].at, ROUND)
        own, targets = [zs[i] for i in rows], [results[i] for i in rows]
        process_groups = [mesh.get_group(d) for d in dims]
        waiting += [_exchange(one, own, targets, process_groups, group) for one in rounds]
    active: list[Iterator[bool]] = []
    while waiting or active:
        # The youngest first: its matrices begin to travel, and then those of an older round are computed.
        active = [one for one in (*waiting[:1], *active) if next(one, False)]
        del waiting[:1]
    return results


def _exchange(
    plan: Round, zs: list[Tensor], results: list[Tensor], process_groups: list[Any], group: dict[str, Any]
) -> Iterator[bool]:
    """Exchange and compute the matrices of a round. Yield whenever it waits for other ranks."""
    like = zs[0].new_empty(0, device=_device(zs[0], process_groups[0]))
    computed = computed_dtype(like)
    # U Vᵀ begins with z in the dtype in which it is computed, so rounding z to it before it is sent changes nothing.
    like = like.to(computed if computed.itemsize < like.dtype.itemsize else like.dtype)
    pieces = [zs[i][box.in_shard] for i, box in plan.sources]
    for phase, process_group in zip(plan.phases, process_groups, strict=True):
        sent, received = _packed([pieces[i] for i in phase.order], like), like.new_empty(sum(phase.received))
        work: Any = dist.all_to_all_single(
            received, sent, phase.received, phase.sent, group=process_group, async_op=True
        )
        yield True
        work.wait()
        pieces = list(received.split(phase.arriving))

    wholes = [like.new_empty(unit.shape) for unit in plan.units]
    _copy([wholes[i][box.in_range] for i, box in plan.targets], pieces)
    wholes = _computed(wholes, plan.units, group)
    pieces = [wholes[i][box.in_range] for i, box in plan.targets]

    like = like.to(computed)
    for phase, process_group in zip(reversed(plan.phases), reversed(process_groups), strict=True):
        sent, received = _packed(pieces, like), like.new_empty(sum(phase.sent))
        work = dist.all_to_all_single(received, sent, phase.sent, phase.received, group=process_group, async_op=True)
        yield True
        work.wait()
        arrived = dict(zip(phase.order, received.split(phase.leaving), strict=True))
        pieces = [arrived[i] for i in range(len(arrived))]
    _copy([results[i][box.in_shard] for i, box in plan.sources], pieces)


def _device(z: Tensor, process_group: Any) -> torch.device:
    """Where matrices travel and are computed. Shards may be offloaded to the CPU, where a group of GPUs cannot send."""
    devices = process_group._device_types
    return z.device if z.device.type in [device.type for device in devices] else devices[0]


def _packed(pieces: list[Tensor], like: Tensor) -> Tensor:
    """The pieces one after the other in memory."""
    sizes = [piece.numel() for piece in pieces]
    packed = like.new_empty(sum(sizes))
    _copy([part.view(piece.shape) for part, piece in zip(packed.split(sizes), pieces, strict=True)], pieces)
    return packed


def _copy(targets: list[Tensor], pieces: list[Tensor]) -> None:
    if targets:
        torch._foreach_copy_(targets, [piece.view(target.shape) for target, piece in zip(targets, pieces, strict=True)])


def _computed(wholes: list[Tensor], units: list[Unit], group: dict[str, Any]) -> list[Tensor]:
    """D(z) of units."""
    results = list(wholes)
    for blocks in dict.fromkeys(unit.blocks for unit in units):
        rows = [i for i, unit in enumerate(units) if unit.blocks == blocks]
        for i, d in zip(rows, directions([wholes[i] for i in rows], {**group, "blocks": blocks}), strict=True):
            results[i] = d
    return results


@lru_cache(maxsize=256)
def _plan(geometries: tuple[Geometry, ...], layout: Layout, at: At, size: int) -> list[Round]:
    """What the rank with these coordinates sends, computes and receives, in rounds of about `size` elements a rank."""
    ranks = geometries[0].ranks
    units = [unit for i, one in enumerate(geometries) for unit in units_of(i, one.shape, layout, math.prod(ranks))]
    units.sort(key=lambda unit: -unit.cost)
    owners = owners_of(units, ranks)
    filled: dict[At, tuple[int, int]] = {}
    rounds: list[list[int]] = []
    for i, (unit, owner) in enumerate(zip(units, owners, strict=True)):
        number, elements = filled.get(owner, (0, 0))
        if elements > 0 and elements + math.prod(unit.shape) > size:
            number, elements = number + 1, 0
        filled[owner] = number, elements + math.prod(unit.shape)
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(i)
    return [_round(geometries, units, owners, numbers, at) for numbers in rounds]


def owners_of(units: Sequence[Unit], ranks: tuple[int, ...]) -> list[At]:
    """Which rank computes each unit: in turn, the one that has least to compute. The largest units come first."""
    loads = [(0, owner) for owner in product(*map(range, ranks))]
    owners: list[At] = []
    for unit in units:
        load, owner = heapq.heappop(loads)
        heapq.heappush(loads, (load + unit.cost, owner))
        owners.append(owner)
    return owners


def units_of(tensor: int, shape: tuple[int, ...], layout: Layout, ranks: int) -> list[Unit]:
    """Units of a tensor: at most one for each rank, or one for each block of given sizes."""
    stacked, transposed, blocks = layout
    if math.prod(shape) == 0:
        return []
    axis = 1 if transposed and not stacked and blocks != 1 else 0
    if stacked:
        ranges = [(first, last, blocks) for first, last in pairwise(_evenly(shape[0], ranks))]
    elif isinstance(blocks, int):
        height = shape[axis] // blocks
        ranges = [(i * height, j * height, j - i) for i, j in pairwise(_evenly(blocks, ranks))]
    else:
        ranges = [(first, last, 1) for first, last in pairwise(accumulate(blocks, initial=0))]
    found: list[Unit] = []
    for first, last, own in ranges:
        part = (*shape[:axis], last - first, *shape[axis + 1 :])
        found.append(Unit(tensor, axis, first, last, part, own, _cost(part, stacked, transposed, own)))
    return found


def _evenly(count: int, ranks: int) -> list[int]:
    """Edges that divide `count` things among the ranks, or one for each if there are fewer."""
    parts = min(count, ranks)
    return [count * i // parts for i in range(parts + 1)]


def _cost(shape: tuple[int, ...], stacked: bool, transposed: bool, blocks: int | tuple[int, ...]) -> int:
    """Σ m² (2 n + m) over the m × n matrices of a tensor, m ≤ n: see the table in `_orthogonal.py`."""
    count = math.prod(shape[:-2]) if stacked else 1
    d_out, d_in = shape[-2:] if stacked else (shape[0], math.prod(shape[1:]))
    if transposed:
        d_out, d_in = d_in, d_out
    heights = [d_out // blocks] * blocks if isinstance(blocks, int) else blocks
    return count * sum(min(m, d_in) ** 2 * (2 * max(m, d_in) + min(m, d_in)) for m in heights)


def _round(
    geometries: Sequence[Geometry], units: Sequence[Unit], owners: Sequence[At], numbers: Sequence[int], at: At
) -> Round:
    """A round of the units with these numbers."""
    known: dict[tuple[int, At], list[Box]] = {}

    def pieces(i: int, there: At) -> list[Piece]:
        if (i, there) not in known:
            unit = units[i]
            known[i, there] = boxes(geometries[unit.tensor], there, unit.axis, unit.first, unit.last)
        return [Piece(i, there, number) for number in range(len(known[i, there]))]

    def box(piece: Piece) -> Box:
        return known[piece.unit, piece.at][piece.number]

    held = [piece for i in numbers for piece in pieces(i, at)]
    sources = [(units[piece.unit].tensor, box(piece)) for piece in held]
    phases: list[Phase] = []
    own = list(numbers)
    for k, ranks in enumerate(geometries[0].ranks):
        # After this phase, a rank has what ranks with its coordinates in the phases to come had at first, of units
        # whose owners have its coordinates in the phases until now.
        own = [i for i in own if owners[i][k] == at[k]]
        places = product(*map(range, geometries[0].ranks[: k + 1]), *([x] for x in at[k + 1 :]))
        arriving = sorted(
            (piece for there in places for i in own for piece in pieces(i, there)), key=lambda p: (p.at[k], p)
        )
        order = sorted(range(len(held)), key=lambda j: (owners[held[j].unit][k], held[j]))
        sent, received = [0] * ranks, [0] * ranks
        for piece in held:
            sent[owners[piece.unit][k]] += box(piece).size
        for piece in arriving:
            received[piece.at[k]] += box(piece).size
        sizes = [box(held[j]).size for j in order], [box(piece).size for piece in arriving]
        phases.append(Phase(order, *sizes, sent, received))
        held = arriving
    position = {i: j for j, i in enumerate(own)}
    return Round(sources, phases, [units[i] for i in own], [(position[piece.unit], box(piece)) for piece in held])
