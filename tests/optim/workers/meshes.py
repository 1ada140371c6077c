"""Worker of several ranks: a transformer on 2-D and 3-D meshes, with layers outside the tensor-parallel plan."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from splits import EXECUTIONS as ALL_EXECUTIONS
from splits import QUICK, RANK, STEPS, TOLERANCE, WORLD, assert_close, whole
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from adamplus import AdamPlus

SETTINGS: dict[str, Any] = {"lr": 0.02, "beta": 0.2, "weight_decay": 0.01}
NAMES = ("pipeline", "replicate", "data", "tensor")
VOCABULARY, LENGTH = 7, 4
EXECUTIONS = {"foreach": ALL_EXECUTIONS["foreach"]} if QUICK else ALL_EXECUTIONS


class Block(nn.Module):
    """The two norms and the projections of a transformer's feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.after = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.after(self.down(torch.tanh(self.up(self.norm(x)))))


class Model(nn.Module):
    """Blocks between an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randint(VOCABULARY, (8, LENGTH), generator=generator)
    return x, (3 * x + x.roll(1, dims=1)) % VOCABULARY


def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def parallelize(model: Model, mesh: DeviceMesh, tensor: str = "projections") -> Model:
    """Split the projections over `tensor`, and everything over the other dimensions of the mesh.

    The embedding, the head and the norms are outside the plan, so they are on a mesh without the dimension `tensor`.
    """
    names = mesh.mesh_dim_names or ()
    if "tensor" in names:
        for block in cast("Any", model.blocks):
            plan: dict[str, Any] = {"up": ColwiseParallel(), "down": RowwiseParallel()}
            if tensor == "sequence":  # the first norm computes on a part of the sequence
                split = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1))
                parallelize_module(block.norm, mesh["tensor"], split)
                plan["norm"] = SequenceParallel()
                plan["up"] = ColwiseParallel(input_layouts=Shard(1))
            parallelize_module(block, mesh["tensor"], plan)  # pyright: ignore[reportArgumentType]
    over = tuple(name for name in ("replicate", "data") if name in names)
    for layer in (*model.blocks, model) if over else ():
        fully_shard(layer, mesh=mesh[over])
    return model


def share(mesh: DeviceMesh, x: Tensor) -> Tensor:
    """Part of the batch for this rank. Ranks along `tensor` and `pipeline` get the same."""
    for name in ("replicate", "data"):
        if name in (mesh.mesh_dim_names or ()):
            x = x.chunk(mesh[name].size())[mesh[name].get_local_rank()]
    return x


def train(optimizer: AdamPlus, model: nn.Module, steps: range, mine: Callable[[Tensor], Tensor] = lambda x: x) -> None:
    for step in steps:
        optimizer.zero_grad()
        x, y = batch(step)
        loss(model, mine(x), mine(y)).backward()
        optimizer.step()


def expected(steps: int = STEPS) -> tuple[list[Tensor], float]:
    model = Model()
    optimizer = AdamPlus(model.parameters(), **SETTINGS)
    train(optimizer, model, range(steps))
    with optimizer.averaged():
        return [whole(p) for p in model.parameters()], optimizer.stats().norm_sum


def meshes() -> list[DeviceMesh]:
    """Meshes of these ranks with `tensor` and one or two dimensions of data."""
    shapes = {
        4: [(2, 2), (2, 1, 2), (1, 2, 2), (2, 2, 1), (1, 4)],
        8: [(2, 2, 2), (4, 2), (2, 4)],
    }[WORLD][: 2 if QUICK else None]
    return [init_device_mesh("cpu", shape, mesh_dim_names=NAMES[-len(shape) :]) for shape in shapes]


def layers_outside_the_plan() -> None:
    """fully_shard over parallelize_module needs no argument, and the right process_group changes nothing."""
    w, norm_sum = expected()
    first, *others = meshes()
    splits = [(mesh, tensor, "foreach", None) for mesh in others for tensor in ("projections", "sequence")]
    splits += [(first, "sequence", name, group) for name in EXECUTIONS for group in (None, dist.group.WORLD)]
    for mesh, tensor, name, group in splits:
        model = parallelize(Model(), mesh, tensor)
        assert len({p.device_mesh for p in model.parameters()}) == 2  # pyright: ignore[reportAttributeAccessIssue]
        optimizer = AdamPlus(model.parameters(), **SETTINGS, **EXECUTIONS[name], process_group=group)
        train(optimizer, model, range(STEPS), lambda x, mesh=mesh: share(mesh, x))
        what = f"{mesh}, {tensor}, {name}, process_group {group}"
        with optimizer.averaged():
            assert_close([whole(p) for p in model.parameters()], w, what)
        assert abs(optimizer.stats().norm_sum / norm_sum - 1) <= TOLERANCE, what


def pipelines() -> None:
    """Each half of the ranks has a block of its own, on a mesh that knows nothing of the other."""
    seen: dict[int, tuple[Tensor, Tensor]] = {}
    for shape in [(2, 1, 2), (2, 2, 1)] if WORLD == 4 else [(2, 2, 2)]:
        root = init_device_mesh("cpu", shape, mesh_dim_names=("pipeline", "data", "tensor"))
        stage, mesh = root["pipeline"].get_local_rank(), root["data", "tensor"]
        for name, execution in EXECUTIONS.items():
            single = Model()
            alone = AdamPlus(single.blocks.parameters(), **SETTINGS)
            block: Any = parallelize(Model(), mesh).blocks[stage]
            mine = AdamPlus(block.parameters(), **SETTINGS, **execution, process_group=dist.group.WORLD)
            for number, own in enumerate(single.blocks):

                def keep(_: Any, inputs: Any, output: Tensor, number: int = number) -> None:
                    output.retain_grad()
                    seen[number] = inputs[0].detach(), output

                own.register_forward_hook(keep)
            for step in range(STEPS):
                alone.zero_grad()
                mine.zero_grad()
                loss(single, *batch(step)).backward()
                x, out = seen[stage]
                g: Any = out.grad
                block(share(mesh, x)).backward(share(mesh, g) * mesh["data"].size())
                alone.step()
                mine.step()
            with alone.averaged(), mine.averaged():
                w = [whole(p) for p in block.parameters()]
                assert_close(w, list(single.blocks[stage].parameters()), f"pipelines of {shape}, {name}")  # pyright: ignore
            assert abs(mine.stats().norm_sum / alone.stats().norm_sum - 1) <= TOLERANCE


def checkpoints() -> None:
    """torch.distributed.checkpoint writes a run on one mesh, and loads it into a run on any other."""
    half = STEPS // 2
    w, norm_sum = expected()
    for source in meshes():
        model = parallelize(Model(), source)
        optimizer = AdamPlus(model.parameters(), **SETTINGS)
        train(optimizer, model, range(half), lambda x, mesh=source: share(mesh, x))
        states = get_state_dict(model, optimizer)
        folder = [TemporaryDirectory() if RANK == 0 else None]
        name = [folder[0].name if folder[0] is not None else ""]
        dist.broadcast_object_list(name)
        path = Path(name[0]) / "checkpoint"
        dcp.save({"model": states[0], "optimizer": states[1]}, checkpoint_id=path)
        for mesh in meshes():
            torch.manual_seed(1)
            model = parallelize(Model(), mesh)
            for p in model.parameters():
                nn.init.zeros_(p)
            optimizer = AdamPlus(model.parameters(), lr=1.0)
            states = get_state_dict(model, optimizer)
            content = {"model": states[0], "optimizer": states[1]}
            dcp.load(content, checkpoint_id=path)
            set_state_dict(model, optimizer, model_state_dict=states[0], optim_state_dict=content["optimizer"])
            train(optimizer, model, range(half, STEPS), lambda x, mesh=mesh: share(mesh, x))
            with optimizer.averaged():
                assert_close([whole(p) for p in model.parameters()], w, f"from {source} to {mesh}")
            assert abs(optimizer.stats().norm_sum / norm_sum - 1) <= TOLERANCE
        dist.barrier()


def elements_that_would_count_twice() -> None:
    """process_group is wrong if its ranks have copies of anything. Their values and gradients show it."""
    mesh = init_device_mesh("cpu", (WORLD // 2, 2), mesh_dim_names=("replicate", "shard"))
    for name, execution in EXECUTIONS.items():
        plain = nn.parallel.DistributedDataParallel(Model())
        sharded = Model()
        for layer in (*sharded.blocks, sharded):
            fully_shard(layer, mesh=mesh["shard"])  # and the same again on the other ranks
        for what, model in {"ddp": plain, "fsdp": sharded}.items():
            if what == "fsdp" and WORLD == 2:
                continue
            optimizer = AdamPlus(model.parameters(), **SETTINGS, **execution, process_group=dist.group.WORLD)
            before = [whole(p) for p in model.parameters()]
            loss(model, *batch(0)).backward()
            for _ in range(2):
                with pytest.raises(RuntimeError, match=r"would count .* twice"):
                    optimizer.step()
            after = [whole(p) for p in model.parameters()]
            assert all(map(torch.equal, before, after)), f"{what}, {name}"


def copies_that_differ() -> None:
    """Parameters on a slice of a mesh are taken to be copies over the rest, and are refused if they are not."""
    mesh = init_device_mesh("cpu", (WORLD // 2, 2), mesh_dim_names=("data", "tensor"))
    expert = nn.Parameter(torch.randn(6, 3, generator=torch.Generator().manual_seed(mesh["tensor"].get_local_rank())))
    params = [
        nn.Parameter(distribute_tensor(torch.ones(4, 4), mesh, [Shard(0), Shard(1)])),
        nn.Parameter(distribute_tensor(expert.detach(), mesh["data"], [Shard(0)])),
    ]
    for p in params:
        p.grad = p.detach().clone()
    for execution in EXECUTIONS.values():
        for group in (None, dist.group.WORLD):
            optimizer = AdamPlus(params, **SETTINGS, **execution, process_group=group)
            with pytest.raises(RuntimeError, match=r"parameter 1 of group 0 .* not the same on"):
                optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for case in sys.argv[1:]:
        globals()[case]()
        if RANK == 0:
            print(case, flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads may abort the interpreter on its way out, after everything was shown
