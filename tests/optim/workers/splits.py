"""Worker of several ranks: every way of splitting a model takes the steps of one process."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FullyShardedDataParallel, OffloadPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from adamplus import AdamPlus

STEPS, TOLERANCE = int(os.environ.get("STEPS", "50")), 1e-6
SETTINGS: dict[str, Any] = {"lr": 0.02, "beta": 0.2, "weight_decay": 0.01}
EXECUTIONS: dict[str, dict[str, Any]] = {"plain": {"foreach": False}, "foreach": {}, "fused": {"fused": True}}
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
QUICK = bool(os.environ.get("QUICK"))


def small_model(hidden: int = 7) -> nn.Sequential:
    """Layers of seven and of three rows, which no number of ranks divides; the last layer's bias is frozen."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, hidden), nn.Tanh(), nn.Linear(hidden, 3))
    model[2].bias.requires_grad_(False)
    return model


def share_of_the_batch(x: Tensor) -> Tensor:
    return x.chunk(WORLD)[RANK]


def everything(x: Tensor) -> Tensor:
    return x


def ddp() -> tuple[nn.Module, nn.Module, Callable[[Tensor], Tensor]]:
    model = small_model()
    return DistributedDataParallel(model), model, share_of_the_batch


def fsdp(*shape: int, offload: bool = False) -> tuple[nn.Module, nn.Module, Callable[[Tensor], Tensor]]:
    """FSDP2 over one dimension, HSDP over two."""
    policy = CPUOffloadPolicy(pin_memory=False) if offload else OffloadPolicy()
    names = ("replicate", "shard")[-len(shape or (WORLD,)) :]
    model, mesh = small_model(), init_device_mesh("cpu", shape or (WORLD,), mesh_dim_names=names)
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh, offload_policy=policy)
    return model, model, share_of_the_batch


def hsdp() -> tuple[nn.Module, nn.Module, Callable[[Tensor], Tensor]]:
    return fsdp(WORLD // 2, 2)


def offloaded() -> tuple[nn.Module, nn.Module, Callable[[Tensor], Tensor]]:
    return fsdp(offload=True)


def tensor_parallel() -> tuple[nn.Module, nn.Module, Callable[[Tensor], Tensor]]:
    model = small_model(8)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(model, init_device_mesh("cpu", (WORLD,)), plan), model, everything


def beside_plain_layers() -> tuple[nn.Module, nn.Module, Callable[[Tensor], Tensor]]:
    model = small_model(8)
    plan: dict[str, Any] = {"0": ColwiseParallel(output_layouts=Replicate())}
    return parallelize_module(model, init_device_mesh("cpu", (WORLD,)), plan), model, everything


def two_dimensions() -> tuple[nn.Module, nn.Module, Callable[[Tensor], Tensor]]:
    mesh = init_device_mesh("cpu", (WORLD // 2, 2), mesh_dim_names=("data", "tensor"))
    model = small_model(8)  # tensor parallel layers are even, torch has it
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh["data"])
    return model, model, lambda x: x.chunk(WORLD // 2)[mesh["data"].get_local_rank()]


SPLITS = (ddp, fsdp, hsdp, offloaded, tensor_parallel, beside_plain_layers, two_dimensions)


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(8, 5, generator=generator)
        yield x, x[:, :3].sin()


def whole(p: Tensor) -> Tensor:
    return (p.full_tensor() if isinstance(p, DTensor) else p).detach().clone()


def trajectory(optimizer: AdamPlus, run: nn.Module, model: nn.Module, mine: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """w every ten steps."""
    found: list[Tensor] = []
    for step, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(run(mine(x)), mine(y))
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            with optimizer.averaged():
                found += [whole(p) for p in model.parameters()]
    return found


def assert_close(found: Sequence[Tensor], expected: Sequence[Tensor], what: str) -> None:
    for a, b in zip(found, expected, strict=True):
        distance = float(((a - b).abs().max() / b.abs().max()).detach())
        assert distance <= TOLERANCE, f"{what}: {distance:.1e} from one process, rank {RANK}"


def every_split_is_one_process() -> None:
    singles: dict[int, tuple[list[Tensor], float]] = {}
    for hidden in (7, 8):
        model = small_model(hidden)
        optimizer = AdamPlus(model.parameters(), **SETTINGS)
        singles[hidden] = trajectory(optimizer, model, model, everything), optimizer.stats().norm_sum
    for i, split in enumerate(SPLITS):
        for j, (name, execution) in enumerate(EXECUTIONS.items()):
            if QUICK and (i + j) % len(EXECUTIONS) != 0:  # each split with one execution
                continue
            run, model, mine = split()
            optimizer = AdamPlus(model.parameters(), **SETTINGS, **execution)
            expected, norm_sum = singles[next(model.parameters()).shape[0]]
            what = f"{split.__name__}, {name}"
            assert_close(trajectory(optimizer, run, model, mine), expected, what)
            assert abs(optimizer.stats().norm_sum / norm_sum - 1) <= TOLERANCE, what
            assert (name == "fused") == (optimizer._plan is not None), what


def explicit(placed: Sequence[Tensor], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(p.shape, generator=generator) for p in placed]


def like(p: Tensor, value: Tensor) -> Tensor:
    return distribute_tensor(value, p.device_mesh, p.placements) if isinstance(p, DTensor) else value.clone()


def several_meshes_and_scopes() -> None:
    """Dense parameters on one mesh, experts on another, plain ones beside them, and gradients yet to be added up."""
    flat = init_device_mesh("cpu", (WORLD,))
    square = init_device_mesh("cpu", (WORLD // 2, 2), mesh_dim_names=("data", "experts"))
    torch.manual_seed(0)
    values = [torch.randn(shape) for shape in ((7, 3), (4, 5), (3,), (6,), (2, 2), (1,))]
    for scope in ("global", "group", "tensor"):
        for name, execution in EXECUTIONS.items():
            if name == "fused" and scope != "global":
                continue
            params = [
                nn.Parameter(distribute_tensor(values[0], flat, [Shard(0)])),
                nn.Parameter(distribute_tensor(values[1], square, [Shard(1), Shard(0)])),
                nn.Parameter(values[2].clone()),
                nn.Parameter(distribute_tensor(values[3], square, [Replicate(), Shard(0)])),
                nn.Parameter(distribute_tensor(values[4], flat, [Replicate()])),
                nn.Parameter(distribute_tensor(values[5], flat, [Shard(0)])),  # which only one rank has
            ]
            single = [nn.Parameter(v.clone()) for v in values]
            split, alone = (
                AdamPlus([{"params": ps[:3]}, {"params": ps[3:], "lr": 0.03}], norm_scope=scope, **SETTINGS, **extra)
                for ps, extra in ((params, execution), (single, {}))
            )
            for step in range(STEPS):
                for i, (p, q, g) in enumerate(zip(params, single, explicit(single, step), strict=True)):
                    missing = (step + i) % 7 == 0
                    q.grad = None if missing else g
                    p.grad = None if missing else like(p, g)
                    if i == 4 and not missing:  # the gradient is the sum of a part on each rank
                        p.grad = DTensor.from_local(g * (RANK + 1) / (WORLD * (WORLD + 1) / 2), flat, [Partial()])
                split.step()
                alone.step()
                if step % 10 == 9:
                    with split.averaged(), alone.averaged():
                        assert_close([whole(p) for p in params], single, f"meshes, {scope}, {name}, step {step}")
            for group in (0, 1):
                a, b = split.stats(group), alone.stats(group)
                assert abs(a.norm_sum / b.norm_sum - 1) <= TOLERANCE, f"meshes, {scope}, {name}: {a} and {b}"


def hand_made_partitions() -> None:
    """Each rank owns some parameters, the last one none; one is missing its gradients now and then."""
    torch.manual_seed(0)
    owners = max(1, WORLD - 1)
    values = [torch.randn(n) for n in (3, 4, 5, 2, 6)]
    for name, execution in EXECUTIONS.items():
        single = [nn.Parameter(v.clone()) for v in values]
        numbers = list(range(RANK, len(values), owners)) if owners > RANK else []
        mine = [nn.Parameter(values[i].clone()) for i in numbers]
        alone = AdamPlus(single, **SETTINGS)
        share = AdamPlus([{"params": mine}], **SETTINGS, process_group=dist.group.WORLD, **execution)
        for step in range(STEPS):
            for i, (q, g) in enumerate(zip(single, explicit(single, step), strict=True)):
                q.grad = None if step % 5 == 2 and i % owners == 0 else g
            for i, p in zip(numbers, mine, strict=True):
                g = single[i].grad
                p.grad = None if g is None else g.clone()
            alone.step()
            share.step()
        with alone.averaged(), share.averaged():
            assert_close(mine, [single[i] for i in numbers], f"hand-made, {name}")
        assert abs(share.stats().norm_sum / alone.stats().norm_sum - 1) <= TOLERANCE


def meshes_of_some_ranks() -> None:
    """Some ranks have their own experts on their own mesh; process_group joins them with the parameters of all."""
    halves = [[r for r in range(WORLD) if r % 2 == h] for h in (0, 1)]
    meshes = init_device_mesh("cpu", (WORLD // 2, 2), mesh_dim_names=("data", "expert"))
    flat = init_device_mesh("cpu", (WORLD,))
    torch.manual_seed(0)
    dense, *experts = (torch.randn(shape) for shape in ((7, 3), (5, 2), (4, 3)))
    half = next(i for i, ranks in enumerate(halves) if RANK in ranks)
    single = [nn.Parameter(v.clone()) for v in (dense, *experts)]
    for name, execution in EXECUTIONS.items():
        params = [
            nn.Parameter(distribute_tensor(dense, flat, [Shard(0)])),
            nn.Parameter(distribute_tensor(experts[half], meshes["data"], [Shard(0)])),
        ]
        single = [nn.Parameter(v.clone()) for v in (dense, *experts)]
        alone = AdamPlus(single, **SETTINGS)
        split = AdamPlus(params, **SETTINGS, process_group=dist.group.WORLD, **execution)
        for step in range(STEPS):
            grads = explicit(single, step)
            for q, g in zip(single, grads, strict=True):
                q.grad = g
            params[0].grad, params[1].grad = like(params[0], grads[0]), like(params[1], grads[1 + half])
            alone.step()
            split.step()
        assert_close([whole(p) for p in params], [single[0], single[1 + half]], f"meshes of some ranks, {name}")


def gradients_on_some_ranks() -> None:
    """A rank without a gradient of a DTensor leaves its shard alone, as if each shard were a parameter."""
    mesh = init_device_mesh("cpu", (WORLD,))
    for scope in ("global", "tensor"):
        for name, execution in EXECUTIONS.items():
            if name == "fused" and scope == "tensor":
                continue
            torch.manual_seed(0)
            values = [torch.randn(WORLD, 3), torch.randn(2 * WORLD)]
            params = [nn.Parameter(distribute_tensor(v, mesh, [Shard(0)])) for v in values]
            pieces = [nn.Parameter(part.clone()) for v in values for part in v.chunk(WORLD)]
            split = AdamPlus(params, norm_scope=scope, **SETTINGS, **execution)
            per_tensor = [{"params": pieces[:WORLD]}, {"params": pieces[WORLD:]}]
            alone = AdamPlus(per_tensor, norm_scope="global" if scope == "global" else "group", **SETTINGS)
            for step in range(STEPS):
                grads = explicit(pieces, step)
                for i, (q, g) in enumerate(zip(pieces, grads, strict=True)):
                    q.grad = None if (i % WORLD + step) % 4 == 0 else g
                for i, p in enumerate(params):
                    g = pieces[i * WORLD + RANK].grad
                    p.grad = None if g is None else DTensor.from_local(g.clone(), mesh, [Shard(0)])
                alone.step()
                split.step()
            own = [pieces[i * WORLD + RANK] for i in range(2)]
            assert_close([p.to_local() for p in params], own, f"gradients on some ranks, {scope}, {name}")  # pyright: ignore[reportAttributeAccessIssue]


def a_warm_up_from_nothing() -> None:
    """A step at lr 0 with gradients that are zero on some ranks counts, also on ranks without parameters."""
    for execution in EXECUTIONS.values():
        values = [torch.ones(3) for _ in range(WORLD - 1)]
        single = [nn.Parameter(v.clone()) for v in values]
        mine = [nn.Parameter(values[RANK].clone())] if RANK < WORLD - 1 else []
        alone = AdamPlus(single, lr=0.0)
        share = AdamPlus([{"params": mine}], lr=0.0, process_group=dist.group.WORLD, **execution)
        for step in range(6):
            for i, q in enumerate(single):
                q.grad = torch.zeros(3) if step == 0 and i % 2 == 0 else torch.ones(3) * (i + 1)
            for p in mine:
                p.grad = single[RANK].grad.clone()  # pyright: ignore[reportOptionalMemberAccess]
            for optimizer in (alone, share):
                optimizer.param_groups[0]["lr"] = 0.0 if step in (0, 3) else 0.1
                optimizer.step()
        assert_close(mine, single[RANK : RANK + 1] if mine else [], "a warm-up")
        assert abs(share.stats().norm_sum / alone.stats().norm_sum - 1) <= TOLERANCE


def replicas_of_a_tensor_parallel_model() -> None:
    """DDP beside tensor parallel: the ranks of one replica make up the model."""
    mesh = init_device_mesh("cpu", (WORLD // 2, 2), mesh_dim_names=("data", "tensor"))
    group = mesh["tensor"].get_group()
    for execution in EXECUTIONS.values():
        p = nn.Parameter(distribute_tensor(torch.ones(4), mesh["tensor"], [Shard(0)]))
        optimizer = AdamPlus([p], process_group=group, **execution)
        p.grad = torch.ones_like(p)
        optimizer.step()
        assert abs(optimizer.stats().norm - 2.0) <= TOLERANCE


def fused_before_anything_global_has_state() -> None:
    mesh = init_device_mesh("cpu", (WORLD,))
    params = [nn.Parameter(distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])), nn.Parameter(torch.ones(3))]
    groups = [{"params": params[:1]}, {"params": params[1:], "norm_scope": "group"}]
    optimizer = AdamPlus(groups, fused=True)
    params[1].grad = torch.ones(3)
    optimizer.step()
    assert optimizer.stats(1).norm == 3**0.5
    beside = nn.Parameter(torch.ones(2))  # which each rank has whole
    optimizer.add_param_group({"params": [beside]})
    beside.grad = torch.ones(2)
    optimizer.step()
    assert abs(optimizer.stats(0).norm - 2**0.5) <= TOLERANCE
    beside.grad = None
    params[0].grad = torch.ones_like(params[0])
    optimizer.step()
    assert abs(optimizer.stats(0).norm - 8**0.5) <= TOLERANCE


def no_rank_has_gradients() -> None:
    mesh = init_device_mesh("cpu", (WORLD,))
    for scope in ("global", "group", "tensor"):
        optimizer = AdamPlus([nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Shard(0)]))], norm_scope=scope)
        optimizer.step()
        assert optimizer.stats().step == 0


def flat_parameters() -> None:
    """The parameters of FSDP1 are plain pieces of a flat one; some ranks have no element of a parameter."""
    for original in (True, False):
        model, single = small_model().requires_grad_(), small_model().requires_grad_()
        run = FullyShardedDataParallel(model, use_orig_params=original, device_id=torch.device("cpu"))
        split = AdamPlus(run.parameters(), **SETTINGS, process_group=dist.group.WORLD)
        alone = AdamPlus(single.parameters(), **SETTINGS)
        for x, y in batches():
            for m, o, mine in ((run, split, share_of_the_batch), (single, alone, everything)):
                o.zero_grad()
                nn.functional.mse_loss(m(mine(x)), mine(y)).backward()
                o.step()
        split.eval()
        alone.eval()
        with FullyShardedDataParallel.summon_full_params(run):
            assert_close(list(model.parameters()), list(single.parameters()), f"FSDP1, use_orig_params={original}")


def zero_redundancy() -> None:
    model, single = small_model(), small_model()

    class Shared(AdamPlus):
        def __init__(self, params: Any, **settings: Any) -> None:
            super().__init__(params, process_group=dist.group.WORLD, **settings)

    wrapped = DistributedDataParallel(model)
    optimizer: Any = ZeroRedundancyOptimizer(
        [p for p in model.parameters() if p.requires_grad], optimizer_class=Shared, **SETTINGS
    )
    alone = AdamPlus([p for p in single.parameters() if p.requires_grad], **SETTINGS)
    for x, y in batches():
        for m, o, mine in ((wrapped, optimizer, share_of_the_batch), (single, alone, everything)):
            o.zero_grad()
            nn.functional.mse_loss(m(mine(x)), mine(y)).backward()
            o.step()
    assert_close(list(model.parameters()), list(single.parameters()), "ZeroRedundancyOptimizer, ŵ")
    optimizer.optim.eval()
    optimizer._sync_params()
    alone.eval()
    assert_close(list(model.parameters()), list(single.parameters()), "ZeroRedundancyOptimizer, w")

    def consolidate() -> None:
        """Up to where it raises: the rest would have some ranks wait for those that have."""
        optimizer._sync_param_groups(optimizer.param_groups, optimizer.optim.param_groups)
        optimizer.optim.state_dict()

    for call in (optimizer.step, consolidate):  # which have its own idea of the mode in the groups
        with pytest.raises(RuntimeError, match=r"eval mode|ZeroRedundancyOptimizer copies"):
            call()
    optimizer.optim.train()
    optimizer._sync_params()
    alone.train()
    assert_close(list(model.parameters()), list(single.parameters()), "ZeroRedundancyOptimizer, ŵ again")
    optimizer.consolidate_state_dict()
    if RANK == 0:
        assert all(group["training"] for group in optimizer.state_dict()["param_groups"])


def compiled() -> None:
    """The whole step in one graph, its message included."""
    for split in (fsdp,) if WORLD == 2 else (fsdp, tensor_parallel, two_dimensions):
        for fused in (None, True):
            run, model, mine = split()
            optimizer = AdamPlus(model.parameters(), **SETTINGS, fused=fused)
            single = small_model(next(model.parameters()).shape[0])
            alone = AdamPlus(single.parameters(), **SETTINGS)
            expected = trajectory(alone, single, single, everything)
            optimizer.step = torch.compile(optimizer.step, fullgraph=True)
            assert_close(trajectory(optimizer, run, model, mine), expected, f"compiled {split.__name__}, {fused=}")


def one_small_message() -> None:
    """Each step of a sharded model sends four numbers, and gathers nothing. The first sends four more."""
    from torch.distributed.tensor.debug import CommDebugMode

    sent: list[Tensor] = []
    original = dist.all_reduce
    for split in (fsdp, hsdp, two_dimensions):
        for name, execution in EXECUTIONS.items():
            run, model, mine = split()
            optimizer = AdamPlus(model.parameters(), **SETTINGS, **execution)
            for step, (x, y) in enumerate(batches()):
                if step == 3:
                    break
                optimizer.zero_grad()
                nn.functional.mse_loss(run(mine(x)), mine(y)).backward()
                sent.clear()

                def counted(message: Tensor, *arguments: Any, **names: Any) -> Any:
                    sent.append(message)
                    return original(message, *arguments, **names)

                dist.all_reduce = counted
                with CommDebugMode() as mode:
                    optimizer.step()
                dist.all_reduce = original
                what = f"{split.__name__}, {name}, step {step}"
                assert [m.numel() for m in sent] == ([4, 4] if step == 0 else [4]), f"{what}: {[m.shape for m in sent]}"
                assert mode.get_total_counts() <= len(sent), f"{what}: {mode.get_comm_counts()}"


def rounding_at_random() -> None:
    """Each shard has its own random numbers, and replicas of a shard have the same ones."""
    mesh = init_device_mesh("cpu", (WORLD // 2, 2))
    for execution in EXECUTIONS.values():
        value = torch.ones(2, 4096, dtype=torch.bfloat16)
        p: Any = nn.Parameter(distribute_tensor(value, mesh, [Replicate(), Shard(0)]))
        optimizer = AdamPlus([p], lr=1e-3, beta=0.5, norm_power=0.0, stochastic_rounding=True, **execution)
        for _ in range(3):
            p.grad = distribute_tensor(torch.full_like(value, 0.5), mesh, [Replicate(), Shard(0)])
            optimizer.step()
        rows = [torch.empty_like(p._local_tensor) for _ in range(WORLD)]
        dist.all_gather(rows, p._local_tensor.detach())
        for rank, row in enumerate(rows):
            assert torch.equal(row, rows[rank % 2])
        assert not torch.equal(rows[0], rows[1])
        assert 0.99 < float(rows[0].float().mean()) < 1.0


def skipped_steps() -> None:
    """If one shard of one rank has an inf or NaN, no rank takes the step, and every rank counts it."""
    mesh = init_device_mesh("cpu", (WORLD,))
    square = init_device_mesh("cpu", (WORLD // 2, 2))
    placed: list[Any] = [(mesh, [Shard(0)]), (square, [Replicate(), Shard(0)])]
    torch.manual_seed(0)
    values = [torch.randn(WORLD, 3), torch.randn(6), torch.randn(4)]
    for scope, name in [(scope, name) for scope in ("global", "group", "tensor") for name in EXECUTIONS]:
        if name == "fused" and scope != "global":
            continue
        shards: list[Any] = [distribute_tensor(v, *at) for v, at in zip(values, placed, strict=False)]
        params = [nn.Parameter(t) for t in (*shards, values[2].clone())]
        single = [nn.Parameter(v.clone()) for v in values]
        options: dict[str, Any] = {"norm_scope": scope, **SETTINGS}
        split = AdamPlus([{"params": [p]} for p in params], **options, **EXECUTIONS[name], skip_nonfinite=True)
        alone = AdamPlus([{"params": [q]} for q in single], **options)
        for step in range(7):
            bad = {0: torch.nan, 3: torch.inf, 4: -torch.inf}.get(step)
            for i, (p, q, g) in enumerate(zip(params, single, explicit(single, step), strict=True)):
                q.grad, p.grad = g, like(p, g)
                own: Any = p.grad
                if bad is not None and i == step % 2 and RANK % 2 == 1:
                    own._local_tensor.view(-1)[0] = bad
                elif bad == torch.inf and i == step % 2:  # a rank without this gradient learns of it, too
                    p.grad = None
            before = [whole(p) for p in params]
            split.step()
            if bad is not None:
                assert all(torch.equal(a, whole(b)) for a, b in zip(before, params, strict=True))
            else:
                alone.step()
        assert_close([whole(p) for p in params], single, f"skipped steps, {scope}, {name}")
        assert [split.stats(i)[::4] for i in range(3)] == [(alone.stats(i).step, 3) for i in range(3)], name
    for name, execution in EXECUTIONS.items():  # only rank 0 has parameters
        p = nn.Parameter(torch.ones(4))
        optimizer = AdamPlus(
            [p] if RANK == 0 else [{"params": []}], process_group=dist.group.WORLD, **execution, skip_nonfinite=True
        )
        for bad in (torch.nan, 1.0, torch.inf):
            p.grad = torch.full((4,), bad)
            optimizer.step()
        assert optimizer.stats()[::4] == (1, 2), name
        assert p.isfinite().all()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    names = sys.argv[1:] or [
        "every_split_is_one_process", "several_meshes_and_scopes", "hand_made_partitions", "meshes_of_some_ranks",
        "gradients_on_some_ranks", "a_warm_up_from_nothing", "replicas_of_a_tensor_parallel_model",
        "fused_before_anything_global_has_state", "no_rank_has_gradients",
        "flat_parameters", "zero_redundancy", "compiled", "one_small_message", "rounding_at_random",
        "skipped_steps",
    ]  # fmt: skip
    for name in names:
        globals()[name]()
        if RANK == 0:
            print(name, flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads may abort the interpreter on its way out, after everything was shown
