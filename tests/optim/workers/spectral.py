"""Worker of several ranks: SpectralPlus takes the steps of one process, however its matrices are divided over ranks."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from splits import (
    QUICK,
    RANK,
    STEPS,
    WORLD,
    ddp,
    everything,
    explicit,
    fsdp,
    hsdp,
    like,
    offloaded,
    small_model,
    tensor_parallel,
    trajectory,
    two_dimensions,
    whole,
)
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from adamplus import SpectralPlus
from adamplus.optim import _exchange

# Matrices are computed in batches of other matrices than in one process, whose products sum in another order. In
# float32, gradients of shards of a batch are also added in another order: a rounding each, which U Vᵀ amplifies by
# ‖z‖ / σ (`orthogonalize`).
EXPLICIT = {torch.float64: 1e-11, torch.float32: 1e-5}
TRAINED = 2e-5
KEPT = 1e-3  # a kept direction may be rounded to the next bfloat16
SHAPES: list[tuple[list[tuple[int, ...]], dict[str, Any]]] = [
    ([(7, 5), (3, 9), (8, 8), (1, 6), (5, 2, 3, 3)], {}),
    ([(12, 5), (3, 4)], {"blocks": 3}),
    ([(5, 11)], {"transposed": True, "blocks": (4, 7)}),
    ([(3, 6, 4), (5, 2, 7)], {"stacked": True, "blocks": 2}),
    ([(7,), (6, 3)], {"geometry": "sign", "weight_decay": 0.0}),
]
Place = Callable[[Tensor], Tensor]


def given(dtype: torch.dtype, place: Place = lambda value: value, **settings: Any) -> SpectralPlus:
    """An optimizer over parameters of every kind, which `place` divides over ranks."""
    generator = torch.Generator().manual_seed(0)
    groups = [
        {"params": [nn.Parameter(place(torch.randn(s, generator=generator, dtype=dtype))) for s in shapes], **own}
        for shapes, own in SHAPES
    ]
    return SpectralPlus(groups, lr=0.02, **settings)


def params(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def placed(mesh: DeviceMesh, *placements: Any) -> Place:
    """Division of tensors that have the dimensions for it. Vectors are replicated where matrices are in columns."""

    def place(value: Tensor) -> Tensor:
        at = [Replicate() if isinstance(p, Shard) and p.dim >= value.ndim else p for p in placements]
        return distribute_tensor(value, mesh, at)

    return place


def assert_close(found: list[Tensor], expected: list[Tensor], tolerance: float, what: str) -> None:
    for a, b in zip(found, expected, strict=True):
        distance = float((a - b).detach().abs().max() / b.detach().abs().max())
        assert distance <= tolerance, f"{what}: {distance:.1e} from one process, rank {RANK}"


def placements() -> Iterator[tuple[str, Place]]:
    flat = init_device_mesh("cpu", (WORLD,))
    square = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("data", "tensor"))
    yield "rows", placed(flat, Shard(0))
    yield "columns", placed(flat, Shard(1))
    yield "a dimension of one rank", placed(init_device_mesh("cpu", (WORLD, 1)), Shard(1), Shard(0))
    if not QUICK:
        yield "replicas of rows", placed(square, Replicate(), Shard(0))
        yield "rows of columns", placed(square, Shard(1), Shard(0))
        yield "rows and columns", placed(square, Shard(0), Shard(1))
        yield "rows of rows", placed(square, Shard(0), Shard(0))
        yield "three dimensions", placed(init_device_mesh("cpu", (2, 1, WORLD // 2)), Shard(1), Shard(0), Shard(0))


EXECUTIONS: dict[str, dict[str, Any]] = {
    "foreach": {},
    "plain": {"foreach": False},
    "fused": {"fused": True},
    "kept": {"keep_direction": True},
    "at w": {"lookahead": 0.0},
}


def every_placement_is_one_process() -> None:
    """Explicit gradients, a parameter without one now and then, and switches between modes."""
    cases = [(place, way) for place in placements() for way in EXECUTIONS]
    if QUICK:
        cases = [case for i, case in enumerate(cases) if i % 4 == 0 or case[1] == "kept"]
    for i, ((name, place), way) in enumerate(cases):
        dtype = torch.float32 if way == "fused" or i % 2 else torch.float64
        _exchange.ROUND = (2**24, 40)[i % 2]
        split, alone = (given(dtype, *at, **EXECUTIONS[way]) for at in ((place,), ()))
        for step in range(STEPS):
            gradients = [g.to(dtype) for g in explicit(params(alone), step)]
            for j, (p, q, g) in enumerate(zip(params(split), params(alone), gradients, strict=True)):
                missing = step > 0 and (step + j) % 9 == 0
                q.grad = None if missing else g
                p.grad = None if missing else like(p, g)
                if j == 0 and isinstance(p, DTensor) and p.device_mesh.ndim == 1 and not missing:
                    p.grad = DTensor.from_local(g / WORLD, p.device_mesh, [Partial()])  # yet to be added up
            split.step()
            alone.step()
            if step % 5 == 4:
                with split.averaged(), alone.averaged():
                    assert_close(list(map(whole, params(split))), params(alone), EXPLICIT[dtype], f"{name}, {way}")
        assert split.stats().step == alone.stats().step
        assert math.isnan(split.stats(0).norm) == (split._ranks is not None)  # other ranks have parts of z
    _exchange.ROUND = 2**24


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    named = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in named if p.ndim == 2]},
        {"params": [p for p in named if p.ndim == 1], "geometry": "sign", "weight_decay": 0.0},
    ]


def every_wrapper_is_one_process() -> None:
    """FSDP2, HSDP, tensor parallel and both. On 2 ranks, HSDP and 2-D meshes have a dimension of one rank."""
    expected: dict[tuple[int, bool], list[Tensor]] = {}
    for hidden in (7, 8):
        for keep in (False, True):
            model = small_model(hidden)
            alone: Any = SpectralPlus(groups_of(model), keep_direction=keep)
            expected[hidden, keep] = trajectory(alone, model, model, everything)
    splits = (fsdp, tensor_parallel) if QUICK else (ddp, fsdp, hsdp, offloaded, tensor_parallel, two_dimensions)
    for split in splits:
        for keep in (False, True):
            run, model, mine = split()
            optimizer: Any = SpectralPlus(groups_of(model), keep_direction=keep)
            found = trajectory(optimizer, run, model, mine)
            hidden = next(model.parameters()).shape[0]
            assert_close(found, expected[hidden, keep], KEPT if keep else TRAINED, f"{split.__name__}, {keep=}")
            assert optimizer._ranks is None if split is ddp else len(optimizer._ranks.cuts) == 2


def replicas_are_equal() -> None:
    """Replicas compute the same matrices, and have the same bits."""
    mesh = init_device_mesh("cpu", (WORLD // 2, 2))
    p: Any = nn.Parameter(distribute_tensor(torch.randn(7, 5, generator=seeded(0)), mesh, [Replicate(), Shard(0)]))
    optimizer = SpectralPlus([p])
    for step in range(3):
        p.grad = distribute_tensor(torch.randn(7, 5, generator=seeded(step)), mesh, [Replicate(), Shard(0)])
        optimizer.step()
    rows = [torch.empty(4, 5) for _ in range(WORLD)]
    dist.all_gather(rows, nn.functional.pad(p._local_tensor.detach(), (0, 0, 0, 4 - len(p._local_tensor))))
    assert all(torch.equal(row, rows[rank % 2]) for rank, row in enumerate(rows))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rounding_at_random() -> None:
    """Each shard has its own random numbers."""
    mesh = init_device_mesh("cpu", (WORLD,))
    cases: list[dict[str, Any]] = [{"geometry": "spectral"}, {"geometry": "sign"}, {"geometry": "sign", "fused": True}]
    for settings in cases:
        value = torch.ones(WORLD, 1024, dtype=torch.bfloat16)
        p: Any = nn.Parameter(distribute_tensor(value, mesh, [Shard(0)]))
        optimizer = SpectralPlus([p], lr=0.01, stochastic_rounding=True, **settings)
        for _ in range(3):
            p.grad = distribute_tensor(value, mesh, [Shard(0)])
            optimizer.step()
        rows = [torch.empty_like(p._local_tensor) for _ in range(WORLD)]
        dist.all_gather(rows, p._local_tensor.detach())
        assert not torch.equal(rows[0], rows[-1]), settings
        assert len(rows[0].unique()) > 1, settings


def stacks_are_not_exchanged() -> None:
    """A rank has whole matrices of a stack, so it takes its steps and switches alone."""
    mesh = init_device_mesh("cpu", (WORLD,))
    values = [torch.randn(5, 4, 3, generator=seeded(0)), torch.randn(WORLD, 3, 4, generator=seeded(1))]
    split = SpectralPlus([nn.Parameter(distribute_tensor(v, mesh, [Shard(0)])) for v in values], stacked=True)
    alone = SpectralPlus([nn.Parameter(v.clone()) for v in values], stacked=True)
    for step in range(3):
        for p, q, g in zip(params(split), params(alone), explicit(values, step), strict=True):
            p.grad, q.grad = like(p, g), g
        if step == 2 and RANK == 0:  # a rank without a gradient leaves its own matrices alone
            params(split)[1].grad = None
        split.step()
        alone.step()
        if RANK == 0:
            split.eval().train()
    assert split._ranks is None
    own = [values[RANK : RANK + 1] for values in (params(alone)[1].detach(),)]
    if RANK > 0:
        assert_close([params(split)[1].to_local()], own, 1e-6, "stacks")  # pyright: ignore[reportAttributeAccessIssue]
    assert_close([whole(params(split)[0])], [params(alone)[0]], 1e-6, "stacks")


def a_first_gradient_in_a_later_step() -> None:
    """Fused kernels step the vectors beside a matrix that is cut over ranks, one of them from the third step on."""
    mesh = init_device_mesh("cpu", (WORLD,))
    ends: list[list[Tensor]] = []
    for fused in (None, True):
        matrix = nn.Parameter(distribute_tensor(torch.randn(6, 4, generator=seeded(0)), mesh, [Shard(0)]))
        early, late = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
        optimizer = SpectralPlus([{"params": [matrix]}, {"params": [early, late], "geometry": "sign"}], fused=fused)
        for step in range(4):
            matrix.grad, early.grad = matrix.detach().clone(), torch.ones(3)
            late.grad = torch.ones(3) if step >= 2 else None
            optimizer.step()
        assert optimizer.state[late]["step"] == 2
        ends.append([early.detach(), late.detach()])
    assert_close(ends[1], ends[0], 1e-6, "fused kernels")


def zero_redundancy() -> None:
    """Each rank steps whole parameters of its own, without an argument."""
    model, single = small_model(), small_model()
    run = DistributedDataParallel(model)
    settings: dict[str, Any] = {"lr": 0.02, "weight_decay": 0.0}
    optimizer: Any = ZeroRedundancyOptimizer(groups_of(model), optimizer_class=SpectralPlus, **settings)
    alone = SpectralPlus(groups_of(single), **settings)
    for step in range(STEPS):
        x = torch.randn(8, 5, generator=seeded(step))
        for m, o, batch in ((run, optimizer, x.chunk(WORLD)[RANK]), (single, alone, x)):
            o.zero_grad()
            m(batch).square().mean().backward()
            o.step()
    assert_close(list(model.parameters()), list(single.parameters()), TRAINED, "ZeroRedundancyOptimizer")


def compiled() -> None:
    """A step of matrices on several ranks is taken without being compiled, and fullgraph=True refuses it."""
    mesh = init_device_mesh("cpu", (WORLD,))
    found: list[Tensor] = []
    for way in ("fullgraph", "compiled", "eager"):
        torch._dynamo.reset()
        p = nn.Parameter(distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)]))
        optimizer = SpectralPlus([p])
        step: Any = optimizer.step
        if way != "eager":
            step = torch.compile(optimizer.step, backend="aot_eager", fullgraph=way == "fullgraph")
        for i in range(3):
            p.grad = distribute_tensor(torch.randn(4, 3, generator=seeded(i)), mesh, [Shard(0)])
            if way == "fullgraph":
                with pytest.raises(RuntimeError, match="group 0 has matrices that are DTensors"):
                    step()
            else:
                step()
        found.append(whole(p))
    assert torch.equal(found[0], torch.ones(4, 3))
    assert torch.equal(found[1], found[2])


def expect(message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


LAST = RANK == WORLD - 1


def disagreeing(**settings: Any) -> tuple[SpectralPlus, list[Any]]:
    """A matrix on all ranks, a stack of a matrix for each rank, and whole tensors."""
    mesh = init_device_mesh("cpu", (WORLD,))
    matrix, stack = torch.randn(5, 4, generator=seeded(0)), torch.randn(WORLD, 3, 4, generator=seeded(1))
    ps: list[Any] = [nn.Parameter(distribute_tensor(v, mesh, [Shard(0)])) for v in (matrix, stack)]
    ps += [nn.Parameter(torch.ones(3)), nn.Parameter(torch.eye(3))]
    groups = [
        {"params": [ps[0], ps[3]]},
        {"params": [ps[1]], "stacked": True},
        {"params": [ps[2]], "geometry": "sign"},
    ]
    optimizer = SpectralPlus(groups, **settings)
    for p in ps:
        p.grad = p.detach().clone()
    return optimizer, ps


def ranks_that_disagree() -> None:
    """All ranks raise, nothing moves, and afterwards they take a step together."""
    optimizer, ps = disagreeing()
    before = [p.detach().clone() for p in ps]

    def check(mine: str, others: str, call: Callable[[], Any]) -> None:
        w_hat = [whole(p) for p in ps]
        expect(mine if LAST else others, call)
        assert all(map(torch.equal, map(whole, ps), w_hat)), others

    for first in (True, False):
        # a rank in eval mode
        if first:
            optimizer._training = not LAST
            for group in optimizer.param_groups:
                group["training"] = not LAST
            check(r"step\(\) in eval mode", "not all can take this step: 1 in eval mode", optimizer.step)
            optimizer._training = True
            for group in optimizer.param_groups:
                group["training"] = True
        # a rank with an error of its own
        lr, optimizer.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"], -1.0 if LAST else 0.02
        check("lr must be", "not all can take this step: 1 with an error", lambda: raising(optimizer.step))
        optimizer.param_groups[0]["lr"] = lr
        # a rank without a gradient
        ps[0].grad = None if LAST else before[0]
        for _ in range(2):
            check("only some ranks have a gradient", "only some ranks have a gradient", optimizer.step)
        ps[0].grad = before[0]
        # a rank that makes another call
        same = "do not make the same call"
        check(same, same, optimizer.eval if LAST else optimizer.step)
        check(same, same, optimizer.step if LAST else optimizer.eval)
        assert optimizer.training
        # a rank with other groups or settings
        group = optimizer.param_groups[0]
        group["state_dtype"] = torch.float64 if LAST else None
        check(same, same, optimizer.step)
        group["state_dtype"] = None
        if RANK == 0 and first:
            ps[1].grad = None  # matrices that are not divided are no concern of other ranks
        optimizer.step()
        ps[1].grad = before[1]
    optimizer.eval()
    expect(r"step\(\) in eval mode", optimizer.step)
    # a rank whose last step broke off, in a switch
    optimizer._torn = LAST
    check("broke off", "not all can take this step: 1 with an error", optimizer.train)
    optimizer._torn = False
    # a rank that has lost its state
    state = optimizer.state.pop(ps[0]) if LAST else {}
    check("or its state", "or its state", optimizer.train)
    if LAST:
        optimizer.state[ps[0]] = state
    optimizer.train()
    optimizer.step()
    assert optimizer.stats().step == 3
    # the groups of one rank change
    if LAST:
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))], "geometry": "sign"})
    check("do not make the same call", "do not make the same call", optimizer.step)


def raising(call: Callable[[], Any]) -> None:
    """Errors of settings are ValueErrors."""
    try:
        call()
    except ValueError as error:
        raise RuntimeError(str(error)) from error


def switches_that_need_no_other_rank() -> None:
    """A rank switches alone if directions are kept, or if there is no look-ahead."""
    for settings in ({"keep_direction": True}, {"lookahead": 0.0}):
        optimizer, ps = disagreeing(**settings)
        optimizer.step()
        w_hat = [whole(p) for p in ps]
        if LAST:
            optimizer._torn = True
            expect("broke off", optimizer.eval)
            optimizer._torn = False
            optimizer.eval().train()
        for p, q in zip(ps, w_hat, strict=True):
            assert torch.allclose(whole(p), q, atol=1e-6, rtol=0)


def a_failed_step_with_a_new_look_ahead() -> None:
    """No rank takes a step that another refuses, so all of them still switch alone."""
    optimizer, _ = disagreeing(lookahead=0.0)
    optimizer.step()
    for group in optimizer.param_groups:
        group["lookahead"] = 1.0
    optimizer.param_groups[0]["lr"] = -1.0 if LAST else 0.02
    expect("lr must be" if LAST else "1 with an error", lambda: raising(optimizer.step))
    assert not any(group["extrapolated"] for group in optimizer.param_groups)  # or eval() would wait for the last rank
    optimizer.eval().train()
    optimizer.param_groups[0]["lr"] = 0.02
    optimizer.step()
    optimizer.eval().train()
    assert all(group["extrapolated"] for group in optimizer.param_groups)


def parameters_that_cannot_be_exchanged() -> None:
    mesh = init_device_mesh("cpu", (WORLD,))
    cases: dict[str, Any] = {
        "has the placements .*redistribute it first": DTensor.from_local(torch.ones(2, 3), mesh, [Partial()]),
        r"should have shape \(2, 3\), and has \(3, 3\)": DTensor.from_local(
            torch.ones(3, 3), mesh, [Shard(0)], shape=torch.Size((2 * WORLD, 3)), stride=(3, 1)
        ),
    }
    for message, value in cases.items():
        p = nn.Parameter(value)
        optimizer = SpectralPlus([p])
        p.grad = value.clone()
        for call in (optimizer.step, optimizer.eval, optimizer.step):
            expect(message, call)
    some = DeviceMesh("cpu", list(range(WORLD - 1)))
    p = nn.Parameter(distribute_tensor(torch.ones(4, 2), some, [Shard(0)]))
    p.grad = p.detach().clone()
    if LAST:
        expect("does not have this rank", SpectralPlus([p]).step)
    else:
        SpectralPlus([p]).step()  # on the ranks of its mesh alone
    if WORLD == 4:
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
        ps = [
            nn.Parameter(distribute_tensor(torch.ones(4, 2), square[name], [Shard(0)])) for name in ("data", "tensor")
        ]
        for p in ps:
            p.grad = p.detach().clone()
        expect("make one SpectralPlus for each", SpectralPlus(ps).step)


def sharded(model: nn.Sequential, *shape: int) -> nn.Sequential:
    """fully_shard over as many ranks as the last size, and replicas of it."""
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    return model


def train(optimizer: SpectralPlus, model: nn.Module, steps: range, share: Place) -> None:
    for step in steps:
        x = share(torch.randn(8, 5, generator=seeded(step)))
        optimizer.zero_grad()
        (model(x) - x[:, :3].sin()).square().mean().backward()
        optimizer.step()


def checkpoints() -> None:
    """torch.distributed.checkpoint writes a run on N ranks in either mode, and M other ranks go on with it.

    Replicas make it as many ranks as there are.
    """
    half, shapes = STEPS // 2, [(1, WORLD), (WORLD, 1), *([(2, 2)] if WORLD == 4 else [])]
    sources = [(shape, keep) for shape in shapes for keep in (False, True)]
    for i, (source, keep) in enumerate(sources[1:3] if QUICK else sources):
        single = small_model()
        alone = SpectralPlus(groups_of(single), keep_direction=keep)
        train(alone, single, range(STEPS), everything)
        model = sharded(small_model(), *source)
        optimizer = SpectralPlus(groups_of(model), keep_direction=keep)
        train(optimizer, model, range(half), lambda x: x.chunk(WORLD)[RANK])
        optimizer.train(i % 2 == 0)
        with TemporaryDirectory() as folder:
            names = [folder]
            dist.broadcast_object_list(names)
            path = Path(names[0]) / "checkpoint"
            states = get_state_dict(model, optimizer)
            dcp.save({"model": states[0], "optimizer": states[1]}, checkpoint_id=path)
            for shape in shapes:
                model = sharded(small_model(), *shape)
                for p in model.parameters():
                    nn.init.zeros_(p)
                optimizer = SpectralPlus(groups_of(model), keep_direction=keep, lr=1.0)
                states = get_state_dict(model, optimizer)
                content = {"model": states[0], "optimizer": states[1]}
                dcp.load(content, checkpoint_id=path)
                set_state_dict(model, optimizer, model_state_dict=states[0], optim_state_dict=content["optimizer"])
                assert optimizer.training == (i % 2 == 0)
                assert {state["step"].item() for state in optimizer.state.values()} == {half}
                optimizer.train()
                train(optimizer, model, range(half, STEPS), lambda x: x.chunk(WORLD)[RANK])
                with optimizer.averaged(), alone.averaged():
                    what = f"from {source} to {shape}, {keep=}"
                    tolerance = TRAINED if not keep else KEPT
                    assert_close([whole(p) for p in model.parameters()], list(single.parameters()), tolerance, what)
            dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for case in sys.argv[1:]:
        globals()[case]()
        if RANK == 0:
            print(case, flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads may abort the interpreter on its way out, after everything was shown
