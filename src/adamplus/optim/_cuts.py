"""Which part of a matrix each rank has, if a DTensor is sharded across its matrices.

A DTensor whose shards consist of whole matrices (a stack of experts, sharded over the experts) is not cut.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from torch import Tensor

from ._layout import is_sharded, local

Runs = tuple[tuple[int, int], ...]
"""Indices along one dimension, as half-open intervals."""


class Geometry(NamedTuple):
    """Where the shards of a tensor are."""

    ranks: tuple[int, ...]
    """Number of ranks along each dimension of the mesh that the matrices are sharded over."""
    shape: tuple[int, ...]
    """Shape of the tensor that these ranks have together."""
    splits: tuple[tuple[tuple[int, int], ...], ...]
    """What divides each dimension of the tensor, in turn: a position in `ranks`, and the placement's split factor."""

    def runs(self, at: Sequence[int]) -> list[Runs]:
        """Indices of the shard of the rank with these coordinates, along each dimension of the tensor."""
        return [
            _runs(size, tuple((self.ranks[i], at[i], factor) for i, factor in splits))
            for size, splits in zip(self.shape, self.splits, strict=True)
        ]


class Cut(NamedTuple):
    """How the matrices of a parameter are cut over the ranks of a mesh."""

    mesh: Any
    dims: tuple[int, ...]
    """Dimensions of the mesh that the matrices are sharded over. Ranks along the others have matrices of their own."""
    geometry: Geometry

    @property
    def at(self) -> tuple[int, ...]:
        """Coordinates of this rank along `dims`."""
        coordinates = self.mesh.get_coordinate()
        return tuple(coordinates[d] for d in self.dims)


class Box(NamedTuple):
    """A box of elements of a tensor."""

    in_shard: tuple[slice, ...]
    """Where it is in the shard that it is part of."""
    in_range: tuple[slice, ...]
    """Where it is in a range of the tensor."""
    size: int
    """Its number of elements."""


def find_cut(p: Tensor, stacked: bool, what: str) -> Cut | None:
    """How the matrices of a parameter are cut, or None if this rank has all of each of its matrices.

    Args:
        p: the parameter.
        stacked: whether all dimensions but the last two number matrices.
        what: name of the parameter in errors.
    """
    if not is_sharded(p):
        return None
    own: Any = p
    mesh, placements, part = own.device_mesh, own.placements, tuple(local(p).shape)
    if mesh.get_coordinate() is None:
        raise RuntimeError(f"{what} is on the mesh {mesh}, which does not have this rank: leave it out here")
    if not _are_known(placements):
        raise RuntimeError(
            f"{what} has the placements {placements}, and SpectralPlus takes Shard and Replicate: redistribute it first"
        )
    dims, geometry = _geometry(tuple(mesh.shape), placements, tuple(p.shape), part, p.ndim - 2 if stacked else 0)
    if not dims:
        return None
    cut = Cut(mesh, dims, geometry)
    expected = tuple(sum(end - begin for begin, end in runs) for runs in geometry.runs(cut.at))
    if part != expected:
        raise RuntimeError(
            f"{what} has shape {tuple(p.shape)} and the placements {placements} on the mesh {mesh}: this rank's part "
            f"should have shape {expected}, and has {part}. Use sizes that the mesh divides"
        )
    return cut


@lru_cache(maxsize=4096)
def _are_known(placements: tuple[Any, ...]) -> bool:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    return all(type(placement) in (Replicate, Shard, _StridedShard) for placement in placements)


@lru_cache(maxsize=4096)
def _geometry(
    sizes: tuple[int, ...], placements: tuple[Any, ...], shape: tuple[int, ...], part: tuple[int, ...], first: int
) -> tuple[tuple[int, ...], Geometry]:
    """Dimensions of a mesh that the dimensions `first`, … of a tensor are sharded over, and where the shards are."""
    sharded = [d for d, placement in enumerate(placements) if not placement.is_replicate() and sizes[d] > 1]
    dims = tuple(d for d in sharded if placements[d].dim >= first)
    splits = tuple(
        tuple((i, getattr(placements[d], "split_factor", 1)) for i, d in enumerate(dims) if placements[d].dim == k)
        for k in range(len(shape))
    )
    # Other dimensions number matrices, of which these ranks have the same ones.
    return dims, Geometry(tuple(sizes[d] for d in dims), part[:first] + shape[first:], splits)


@lru_cache(maxsize=65536)
def _runs(size: int, splits: tuple[tuple[int, int, int], ...]) -> Runs:
    """Those of `size` indices that a rank has after all splits: the number of ranks, this one's, and the split factor.

    A split with a factor divides the indices into as many pieces, and each piece among the ranks.
    """
    runs: Runs = ((0, size),)
    for ranks, rank, factor in splits:
        pieces = [_chunk(runs, factor, i) for i in range(factor)]
        runs = tuple(run for piece in pieces for run in _chunk(piece, ranks, rank))
    return runs


def _chunk(runs: Runs, chunks: int, number: int) -> Runs:
    """One of the chunks into which torch.chunk divides these indices."""
    size = -(-sum(end - begin for begin, end in runs) // chunks)
    first, last = number * size, (number + 1) * size
    found: list[tuple[int, int]] = []
    for begin, end in runs:
        if (b := begin + max(first, 0)) < (e := min(end, begin + last)):
            found.append((b, e))
        first, last = first - (end - begin), last - (end - begin)
    return tuple(found)


def boxes(geometry: Geometry, at: Sequence[int], axis: int, first: int, last: int) -> list[Box]:
    """Elements of a rank's shard that are in the range `first` to `last` − 1 along one axis of the tensor."""
    along: list[list[tuple[slice, slice]]] = []
    for k, runs in enumerate(geometry.runs(at)):
        low, high = (first, last) if k == axis else (0, geometry.shape[k])
        position, slices = 0, list[tuple[slice, slice]]()
        for begin, end in runs:
            if (b := max(begin, low)) < (e := min(end, high)):
                slices.append((slice(position + b - begin, position + e - begin), slice(b - low, e - low)))
            position += end - begin
        along.append(slices)
    return [
        Box(
            tuple(in_shard for in_shard, _ in box),
            tuple(in_range for _, in_range in box),
            math.prod(in_range.stop - in_range.start for _, in_range in box),
        )
        for box in product(*along)
    ]
