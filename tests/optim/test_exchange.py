"""Shards of matrices that travel between ranks: what arrives, who computes it, and what it costs.

Here ranks are threads of one process, and an all-to-all is a copy between them. test_distributed.py has real processes.
"""

import math
import threading
from collections import Counter
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from cases import thinned
from torch import Tensor
from torch.distributed.tensor import Shard
from torch.distributed.tensor.placement_types import _StridedShard

from adamplus.optim import _exchange
from adamplus.optim._cuts import Cut, Geometry, _geometry
from adamplus.optim._directions import directions

PLAIN: dict[str, Any] = {"geometry": "spectral", "scale": 1.0, "stacked": False, "transposed": False, "blocks": 1}


class Network:
    """All-to-alls between threads, and how many elements each sends to other ranks."""

    def __init__(self) -> None:
        self.posted: dict[Any, tuple[Tensor, list[int]]] = {}
        self.changed = threading.Condition()
        self.sent: Counter[tuple[int, ...]] = Counter()
        self.calls: Counter[tuple[int, ...]] = Counter()

    def all_to_all_single(
        self, output: Tensor, input: Tensor, receives: list[int], sends: list[int], group: Any, async_op: bool
    ) -> Any:
        assert async_op
        assert (output.numel(), input.numel()) == (sum(receives), sum(sends))
        self.calls[group.me] += 1
        call = self.calls[group.me]
        self.sent[group.me] += sum(sends) - sends[group.me[group.dim]]
        with self.changed:
            self.posted[group.me, group.dim, call] = input.clone(), sends
            self.changed.notify_all()

        def wait() -> None:
            parts: list[Tensor] = []
            for i, expected in enumerate(receives):
                peer = (*group.me[: group.dim], i, *group.me[group.dim + 1 :])
                with self.changed:
                    assert self.changed.wait_for(lambda peer=peer: (peer, group.dim, call) in self.posted, timeout=20)
                    values, splits = self.posted[peer, group.dim, call]
                parts.append(values.split(splits)[group.me[group.dim]])
                assert parts[-1].numel() == expected
            output.copy_(torch.cat(parts))

        return SimpleNamespace(wait=wait)


class Mesh(NamedTuple):
    """What the exchange reads from a mesh, for the rank `me`."""

    me: tuple[int, ...]

    def get_coordinate(self) -> list[int]:
        return list(self.me)

    def get_group(self, dim: int) -> Any:
        return SimpleNamespace(me=self.me, dim=dim, _device_types=[torch.device("cpu")])


def shard(value: Tensor, cut: Cut) -> Tensor:
    for k, runs in enumerate(cut.geometry.runs(cut.at)):
        value = torch.cat([value.narrow(k, begin, end - begin) for begin, end in runs] or [value.narrow(k, 0, 0)], k)
    return value.clone()


def cut_for(me: tuple[int, ...], sizes: tuple[int, ...], placements: tuple[Any, ...], value: Tensor) -> Cut:
    """As `find_cut`, with the mesh of this test."""
    dims, geometry = _geometry(sizes, placements, tuple(value.shape), tuple(value.shape), 0)
    return Cut(Mesh(me), dims, geometry)


def exchange(
    values: list[Tensor], sizes: tuple[int, ...], placements: list[tuple[Any, ...]], settings: dict[str, Any]
) -> tuple[dict[tuple[int, ...], list[Tensor]], dict[tuple[int, ...], list[Cut]], Network]:
    """Directions of every rank's shards, and its cuts."""
    network = Network()
    found: dict[tuple[int, ...], list[Tensor]] = {}
    cuts = {
        me: [cut_for(me, sizes, at, value) for value, at in zip(values, placements, strict=True)]
        for me in product(*map(range, sizes))
    }

    def run(me: tuple[int, ...]) -> None:
        own = [shard(value, cut) for value, cut in zip(values, cuts[me], strict=True)]
        found[me] = _exchange.exchanged_directions(own, cuts[me], {**PLAIN, **settings})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_exchange, "dist", network)
        threads = [threading.Thread(target=run, args=(me,), name=str(me)) for me in cuts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found.keys() == cuts.keys()
    return found, cuts, network


SIZES: list[tuple[int, ...]] = [(1, 6), (2,), (3,), (7,), (2, 3), (2, 2, 2)]
LAYOUTS: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "matrices": ([(7, 5), (3, 9), (8, 8), (1, 6), (5, 4), (0, 3)], {}),
    "convolutions": ([(5, 2, 3, 3), (4, 3, 2)], {}),
    "depthwise": ([(8, 1, 3, 3)], {"blocks": 8}),
    "packed": ([(12, 5), (3, 4)], {"blocks": 3}),
    "packed unequally, stored as (in, out)": ([(5, 11), (9, 11)], {"transposed": True, "blocks": (4, 7)}),
    "packed, stored as (in, out)": ([(5, 12), (9, 4)], {"transposed": True, "blocks": 4}),
    "stored as (in, out)": ([(6, 9), (4, 3, 2, 2)], {"transposed": True}),
    "experts": ([(3, 6, 4), (5, 2, 7), (2, 2, 2, 3)], {"stacked": True}),
    "packed experts": ([(3, 6, 4), (5, 2, 7)], {"stacked": True, "blocks": 2}),
    "unequally packed experts": ([(3, 5, 4)], {"stacked": True, "blocks": (2, 3)}),
}


def placements_of(sizes: tuple[int, ...], way: str) -> tuple[Any, ...]:
    if way == "rows":
        return tuple(Shard(0) for _ in sizes)
    if way == "columns":
        return tuple(Shard(1) for _ in sizes)
    if way == "rows and columns":
        return tuple(Shard(i % 2) for i, _ in enumerate(sizes))
    # as fully_shard places what tensor parallelism has divided
    strided = [_StridedShard(0, split_factor=math.prod(sizes[i + 1 :])) for i, _ in enumerate(sizes[:-1])]
    return (*strided, Shard(0))


@pytest.mark.parametrize(
    ("name", "size", "way"), thinned(LAYOUTS, [2**24, 20], ["rows", "columns", "rows and columns", "strided"])
)
def test_every_rank_gets_the_shard_of_the_direction_of_the_whole(
    name: str, size: int, way: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_exchange, "ROUND", size)
    shapes, settings = LAYOUTS[name]
    values = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    expected = directions(values, {**PLAIN, **settings})
    for sizes in SIZES:
        found, cuts, _ = exchange(values, sizes, [placements_of(sizes, way)] * len(values), settings)
        for me, results in found.items():
            for d, cut, whole in zip(results, cuts[me], expected, strict=True):
                # the order of sums in matrix products of another batch, amplified as `orthogonalize` documents it
                assert torch.allclose(d, shard(whole, cut), rtol=0, atol=1e-9), (sizes, me)


@pytest.mark.parametrize("way", ["rows", "columns", "rows and columns", "strided"])
@pytest.mark.parametrize("sizes", [*SIZES, (2, 4), (3, 2, 2)])
def test_shards_are_where_torch_puts_them(sizes: tuple[int, ...], way: str):
    placements = placements_of(sizes, way)
    for shape in ((7, 5), (8, 12), (1, 9), (13, 2)):
        value = torch.arange(math.prod(shape)).view(shape)
        for me in product(*map(range, sizes)):
            part = value
            for size, placement, i in zip(sizes, placements, me, strict=True):
                part = placement._split_tensor(part, size, with_padding=False)[0][i]
            assert torch.equal(shard(value, cut_for(me, sizes, placements, value)), part)


@pytest.mark.parametrize(("sizes", "hops"), [((4,), 3 / 4), ((2, 3), 1 / 2 + 2 / 3)])
def test_an_exchange_sends_each_element_once_each_way_along_each_dimension(sizes: tuple[int, ...], hops: float):
    values = [torch.randn(12, 12) for _ in range(12)]
    placements = placements_of(sizes, "rows and columns")
    _, _, network = exchange(values, sizes, [placements] * 12, {})
    ranks = math.prod(sizes)
    each = [network.sent[me] for me in product(*map(range, sizes))]
    assert sum(each) == pytest.approx(2 * 12 * 144 * hops)
    assert max(each) == min(each) == sum(each) / ranks
    assert all(network.calls[me] == 2 * len(sizes) for me in product(*map(range, sizes)))


def test_matrices_are_divided_by_what_they_cost():
    geometries = tuple(Geometry((4,), shape, (((0, 1),), ())) for shape in [(64, 64)] * 9 + [(64, 256)] * 5)
    owned = [_exchange._plan(geometries, (False, False, 1), (i,), 2**24) for i in range(4)]
    costs = [sum(unit.cost for one in plan for unit in one.units) for plan in owned]
    assert sum(costs) == 9 * 3 * 64**3 + 5 * 9 * 64**3
    assert max(costs) - min(costs) <= 9 * 64**3  # one of the largest matrices
    numbers = sorted(unit.tensor for plan in owned for one in plan for unit in one.units)
    assert numbers == list(range(14))


def test_ranks_without_matrices_take_part():
    value = torch.randn(6, 4)
    found, cuts, network = exchange([value], (5,), [(Shard(0),)], {})
    for me, (d,) in found.items():
        assert torch.allclose(d, shard(directions([value], PLAIN)[0], cuts[me][0]), atol=1e-5)
    assert found[3,][0].numel() == found[4,][0].numel() == 0
    assert {network.calls[i,] for i in range(5)} == {2}


def test_matrices_of_one_round_travel_while_those_of_another_are_computed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_exchange, "ROUND", 16)
    events: list[str] = []

    def logged(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread().name == str((0,)):
                events.append(name)
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(_exchange, "directions", logged("compute", directions))
    monkeypatch.setattr(Network, "all_to_all_single", logged("send", Network.all_to_all_single))
    exchange([torch.randn(4, 4) for _ in range(6)], (2,), [(Shard(0),)] * 6, {})
    assert events == ["send", "send", "compute", "send", "send", "compute", "send", "compute", "send"]


@pytest.mark.parametrize(
    ("dtype", "computed"),
    [(torch.float64, torch.float64), (torch.float32, torch.float32), (torch.bfloat16, torch.float32)],
)
def test_shards_travel_in_the_narrower_of_two_dtypes(
    dtype: torch.dtype, computed: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    seen: list[torch.dtype] = []
    original = Network.all_to_all_single
    monkeypatch.setattr(
        Network, "all_to_all_single", lambda self, *a, **k: (seen.append(a[0].dtype), original(self, *a, **k))[1]
    )
    value = torch.randn(6, 4).to(dtype)
    found, cuts, _ = exchange([value], (2,), [(Shard(0),)], {})
    assert {*seen} == {dtype, computed}
    expected = directions([value], PLAIN)[0]
    for me, (d,) in found.items():
        assert d.dtype == computed
        assert torch.allclose(d, shard(expected, cuts[me][0]), atol=1e-5)


def test_nan_in_one_shard_shows_in_all_shards_of_its_matrix_alone():
    values = [torch.randn(4, 3) for _ in range(3)]
    values[1][0, 0] = torch.nan
    found, _, _ = exchange(values, (2,), [(Shard(0),)] * 3, {})
    for results in found.values():
        assert [bool(d.isnan().all()) for d in results] == [False, True, False]
        assert results[0].isfinite().all()


def test_shards_on_the_cpu_travel_where_their_group_can_send():
    z = torch.ones(2)
    for kinds, expected in ((["cpu", "meta"], "cpu"), (["meta"], "meta")):
        group = SimpleNamespace(_device_types=list(map(torch.device, kinds)))
        assert _exchange._device(z, group).type == expected
