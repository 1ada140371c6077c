"""How a model is divided over ranks: which part of each parameter this rank has, and which ranks have copies of it."""

import math
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch
import torch.distributed as dist
from torch import Tensor

Groups = Sequence[dict[str, Any]]
Scope = tuple[int, int]
"""Group and parameter that a norm is over; −1 stands for all of them."""

GLOBAL: Scope = (-1, -1)
ORDINARY = (Tensor, torch.nn.Parameter)
GROUP = "pass the process_group of the ranks that together have one replica of the model"


class Share(NamedTuple):
    """This rank's part of a parameter."""

    copies: int = 1
    """Number of ranks that have this part, among those whose squares are summed."""
    number: int = 0
    """Number of the part, so that no two parts are rounded by the same random numbers."""


ALONE = Share()
"""Share of a parameter that no other rank has."""


def alone(p: Tensor) -> Share:
    """Share of a parameter whose squares are not summed over ranks."""
    own: Any = p
    return Share(number=_number(own.device_mesh, own.placements)) if is_sharded(p) else ALONE


class Layout(NamedTuple):
    """What is summed over the ranks of a process group."""

    group: Any
    shares: list[list[Share]]
    """Share of each parameter of each param group."""
    scopes: list[Scope]
    """Norms other than the global one, in the order of their messages."""
    number: int
    """Number that all ranks have in common, unless their parameters differ."""
    slices: list[tuple[str, Any, Any]]
    """Name, parameter and larger mesh of each parameter on a slice of a mesh that other parameters use."""


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor, which knows this rank's part of it."""
    return type(tensor) not in ORDINARY and hasattr(tensor, "device_mesh")


def is_split(tensor: Tensor) -> bool:
    """Whether other ranks have other parts of a tensor."""
    own: Any = tensor
    return is_sharded(tensor) and _pieces(own.device_mesh, own.placements) > 1


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


def parameters(groups: Groups) -> Iterator[tuple[int, int, Any]]:
    """Number of the group, number in the group, and parameter."""
    return ((i, j, p) for i, group in enumerate(groups) for j, p in enumerate(group["params"]))


def scope(group: dict[str, Any], i: int, j: int) -> Scope:
    """Scope of the norm that parameter j of group i is part of."""
    kind = group["norm_scope"]
    return (-1 if kind == "global" else i, j if kind == "tensor" else -1)


def find_layout(groups: Groups, process_group: Any) -> Layout | None:
    """Layout of the parameters, or None if this rank has all of them. Raise if the parts cannot make up one vector.

    With `process_group`, each of its ranks has parts of its own, except for the copies that DTensors know of. Without
    it, all ranks make up the model, and what is not a DTensor is the same on all of them. In both cases, a parameter on
    a slice of a mesh that another parameter uses is the same on the rest of that mesh.
    """
    sharded = [(i, j, p) for i, j, p in parameters(groups) if is_sharded(p)]
    larger = _larger_meshes([p.device_mesh for _, _, p in sharded])
    for i, j, p in sharded:
        _refuse_other_ranks(p, larger[p.device_mesh], f"parameter {j} of group {i}", process_group)
    if process_group is None and all(_pieces(p.device_mesh, p.placements) == 1 for _, _, p in sharded):
        return None
    group = process_group or dist.group.WORLD
    everyone = dist.get_world_size(group)
    shares = [[Share(1 if process_group else everyone) for _ in group["params"]] for group in groups]
    for i, j, p in sharded:
        ranks = larger[p.device_mesh].size() if process_group else everyone
        pieces, number = _pieces(p.device_mesh, p.placements), _number(p.device_mesh, p.placements)
        shares[i][j] = Share(ranks // pieces, number)
    return Layout(
        group,
        shares,
        scopes=list(dict.fromkeys(s for i, j, _ in parameters(groups) if (s := scope(groups[i], i, j)) != GLOBAL)),
        number=0 if process_group else zlib.crc32(repr(_description(groups)).encode()) % 2**20,
        slices=[
            (f"parameter {j} of group {i}", p, mesh)
            for i, j, p in sharded
            if (mesh := larger[p.device_mesh]).size() > p.device_mesh.size()
        ],
    )


def _larger_meshes(meshes: list[Any]) -> dict[Any, Any]:
    """The largest of these meshes that each one is a slice of."""
    used = list(dict.fromkeys(meshes))
    return {
        mesh: max((m for m in used if _root(m) == _root(mesh) and _ranks(mesh) <= _ranks(m)), key=lambda m: m.size())
        for mesh in used
    }


def _refuse_other_ranks(p: Any, larger: Any, what: str, process_group: Any) -> None:
    """Raise if the ranks that hold a DTensor are not those that the norm is summed over."""
    mesh = sorted(_ranks(p.device_mesh))
    everyone = dist.get_process_group_ranks(process_group or dist.group.WORLD)
    if dist.get_rank() not in mesh:
        raise RuntimeError(f"{what} is on a mesh of the ranks {mesh}, and this is rank {dist.get_rank()}")
    if process_group is None and larger.size() != len(everyone):
        raise RuntimeError(
            f"{what} is on a mesh of the ranks {mesh}, and there are {len(everyone)} ranks: the others may have "
            f"parameters, too. {GROUP.capitalize()}"
        )
    if not _ranks(p.device_mesh) <= {*everyone}:
        raise RuntimeError(
            f"{what} is on a mesh of the ranks {mesh}, and process_group has the ranks {everyone}: {GROUP}"
        )
    if any(placement.is_partial() for placement in p.placements):
        raise RuntimeError(f"{what} has the placements {p.placements}, which are partial sums: redistribute it first")


def _description(groups: Groups) -> list[Any]:
    """What all ranks have in common if no process_group says that each has parts of its own."""
    return [
        [group["norm_scope"], group["skip_nonfinite"]]
        + [
            (tuple(p.shape), p.dtype, (p.device_mesh.size(), p.placements) if is_sharded(p) else None)
            for p in group["params"]
        ]
        for group in groups
    ]


def _root(mesh: Any) -> Any:
    """The mesh that a mesh is a slice of."""
    if hasattr(mesh, "_get_root_mesh"):
        return mesh._get_root_mesh()
    from torch.distributed.device_mesh import _mesh_resources  # pragma: no cover - torch before 2.10

    return _mesh_resources.get_root_mesh(mesh)  # pragma: no cover


def _is_shard(placement: Any) -> bool:
    return not (placement.is_replicate() or placement.is_partial())


@lru_cache(maxsize=4096)
def _pieces(mesh: Any, placements: tuple[Any, ...]) -> int:
    """Number of different parts of a DTensor."""
    return math.prod(mesh.size(d) for d, placement in enumerate(placements) if _is_shard(placement))


@lru_cache(maxsize=4096)
def _number(mesh: Any, placements: tuple[Any, ...]) -> int:
    """Number of this rank's part among the different parts of a DTensor."""
    number = 0
    for d, coordinate in enumerate(mesh.get_coordinate()):
        if _is_shard(placements[d]):
            number = number * mesh.size(d) + coordinate
    return number


@lru_cache(maxsize=256)
def _ranks(mesh: Any) -> frozenset[int]:
    return frozenset(mesh.mesh.flatten().tolist())
