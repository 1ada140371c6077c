"""Run as several ranks, or alone: save a run with torch.distributed.checkpoint, or load it elsewhere and go on with it.

`save DIRECTORY CASES` trains, saves and trains on; `load DIRECTORY CASES` goes on from what was saved, on as many
processes as it is given, and compares. Alone, there is no process group.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from adamplus import AdamPlus

FIRST, LAST = range(4), range(4, 8)
SHARED = {"lr": 0.1, "weight_decay": 0.01, "decoupled_weight_decay": True}
FAST, SLOW = {"lr": 0.2, "beta": 0.2}, {"lr": 0.05, "weight_decay": 0.02}
# Names of a group's parameters, and its settings; where it is loaded, settings come from the checkpoint.
GROUPS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "one": [("0.weight 0.bias 2.weight 2.bias", SHARED)],
    "one in another order": [("2.bias 0.weight 2.weight 0.bias", SHARED)],
    "two alike": [("2.bias 0.bias", SHARED), ("2.weight 0.weight", SHARED)],
    "two": [("0.weight 2.bias", FAST), ("2.weight 0.bias", SLOW)],
    "two in another order": [("0.bias 2.weight", SLOW), ("2.bias 0.weight", FAST)],
    "four": [("2.bias", FAST), ("0.bias", SLOW), ("0.weight", FAST), ("2.weight", SLOW)],
}
# A saved grouping, and those that it is loaded into. A sharded state_dict that is not flattened has numbers of groups
# in its keys, and torch loads it into as many groups; a full one goes by names.
REGROUPED = {
    "sharded": {"two": ["two", "two in another order"], "one": ["one in another order"]},
    "offloaded": {"two": ["two", "two in another order"]},
    "flattened": {"two": ["two", "two in another order", "four"], "one": ["two alike"], "two alike": ["one"]},
    "full": {"two": ["two", "two in another order"], "one": ["one in another order"], "two alike": ["one"]},
}
CASES = [
    {"how": how, "wrap": wrap, "mode": mode, "groups": groups}
    for how, wrap, mode in product(REGROUPED, ("fully_shard", "ddp"), ("train", "eval"))
    for groups in REGROUPED[how]
]


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def wrapped(model: nn.Sequential, wrap: str) -> nn.Module:
    if not dist.is_initialized() or wrap == "plain":
        return model
    if wrap == "ddp":
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (world(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    return model


class Run:
    """A model, its optimizer over named groups, and batches that all ranks divide among themselves."""

    def __init__(self, wrap: str, groups: str, follow: bool, seed: int = 0, **settings: Any) -> None:
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))  # on 4 ranks, one has no share of 2.bias
        self.model = wrapped(model, wrap)
        named = {name.removeprefix("module."): p for name, p in self.model.named_parameters()}
        self.named = named
        parts = [{"params": [named[n] for n in names.split()], **own} for names, own in GROUPS[groups]]
        self.optimizer = AdamPlus(parts, **settings)
        self.switch = self.optimizer
        if follow:
            self.optimizer.follow(self.model)
            self.switch = self.model

    def train(self, steps: range) -> None:
        for step in steps:
            x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step)).chunk(world())[rank()]
            self.optimizer.zero_grad()
            (self.model(x) - x[:, :3].sin()).square().mean().backward()
            self.optimizer.step()

    def save(self, path: Path, how: str) -> None:
        options = options_of(how)
        content = {
            "model": get_model_state_dict(self.model, options=options),
            "optimizer": get_optimizer_state_dict(self.model, self.optimizer, options=options),
        }
        if how != "full":
            dcp.save(content, checkpoint_id=path)
        elif rank() == 0:
            path.mkdir()
            torch.save(content, path / "full.pt")

    def load(self, path: Path, how: str) -> None:
        options, content = options_of(how), {"model": {}, "optimizer": {}}
        if how != "full":
            content = {
                "model": get_model_state_dict(self.model, options=options),
                "optimizer": get_optimizer_state_dict(self.model, self.optimizer, options=options),
            }
            dcp.load(content, checkpoint_id=path)
        else:
            options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=dist.is_initialized())
            if rank() == 0:
                content = torch.load(path / "full.pt", weights_only=True)
        set_model_state_dict(self.model, content["model"], options=options)
        set_optimizer_state_dict(self.model, self.optimizer, content["optimizer"], options=options)

    def scalars(self) -> dict[str, tuple[float, float]]:
        """offset and step of each parameter: what must come back as it was."""
        states = {name: self.optimizer.state[p] for name, p in self.named.items()}
        return {name: (s["offset"].item(), s["step"].item()) for name, s in states.items()}

    def w(self) -> dict[str, Tensor]:
        """w, whole, on every rank."""
        with self.optimizer.averaged():
            return {name: whole(p).clone() for name, p in self.named.items()}

    def norms(self) -> list[float]:
        stats = self.optimizer.stats()  # η is another group's where parameters were regrouped
        return [stats.norm, stats.norm_sum]

    def settings(self) -> dict[str, Any]:
        keys = ("lr", "beta", "weight_decay", "decoupled_weight_decay")
        groups = self.optimizer.param_groups
        return {
            n: [g[k] for k in keys] for n, p in self.named.items() for g in groups if any(p is q for q in g["params"])
        }


def options_of(how: str) -> StateDictOptions:
    return StateDictOptions(
        full_state_dict=how == "full",
        cpu_offload=how in ("full", "offloaded"),  # both: on rank 0 alone
        flatten_optimizer_state_dict=how == "flattened",
    )


def state_dtype(case: int) -> torch.dtype | None:
    return (None, torch.float64, torch.float32)[case % 3]


def whole(p: Tensor) -> Tensor:
    return p.full_tensor() if hasattr(p, "full_tensor") else p.detach()  # pyright: ignore[reportAttributeAccessIssue]


def assert_close(a: Mapping[str, Tensor], b: Mapping[str, Tensor], tolerance: float) -> None:
    for name in b:
        error = (a[name] - b[name]).abs().max() / b[name].abs().max()
        assert error <= tolerance, f"{name} is off by {error}"


def save(directory: Path, cases: list[dict[str, str]]) -> None:
    for i, case in enumerate(cases):
        run = Run(case["wrap"], case["groups"], follow=i % 2 == 0, state_dtype=state_dtype(i))
        run.train(FIRST)
        run.switch.train(case["mode"] == "train")
        saved = {"scalars": run.scalars(), "settings": run.settings(), "norm_sum": run.optimizer.stats().norm_sum}
        run.save(directory / str(i), case["how"])
        run.switch.train()
        run.train(LAST)
        saved |= {"w": run.w(), "norms": run.norms(), "world": world()}
        if rank() == 0:
            torch.save(saved, directory / f"{i}.pt")
        if dist.is_initialized():
            dist.barrier()


def read() -> None:
    """Reading the state of a fresh optimizer, in either mode, does not change its training."""
    for wrap, mode in product(("fully_shard", "ddp"), ("train", "eval")):
        run, twin = Run(wrap, "two", follow=True), Run(wrap, "two", follow=True)
        run.model.train(mode == "train")
        state: Any = get_optimizer_state_dict(run.model, run.optimizer)
        assert not any(value.any() for own in state["state"].values() for value in map(whole, own.values()))
        assert run.optimizer.training == (mode == "train")
        run.model.train()
        for each in (run, twin):
            each.train(FIRST)
        assert_close(run.w(), twin.w(), 0.0)
    warm_up()
    refuse_whole_state()
    shares()


def warm_up() -> None:
    """A gradient at lr 0 that only one rank has is z_0 for all ranks."""
    run = Run("fully_shard", "one", follow=False)
    for group in run.optimizer.param_groups:
        group["lr"] = 0.0
    for p in run.named.values():
        p.grad = torch.zeros_like(p)
        p.grad.to_local().fill_(float(rank() == 0))  # pyright: ignore[reportAttributeAccessIssue]
    run.optimizer.step()
    assert {step for _, step in run.scalars().values()} == {1.0}


def refuse_whole_state() -> None:
    run, alone = Run("fully_shard", "one", follow=False), Run("plain", "one", follow=False)
    for each, other, is_what in ((run, alone, "sharded"), (alone, run, "whole")):
        other.train(FIRST)
        with pytest.raises(ValueError, match=f"parameter 0 is {is_what}, its z in this state_dict is not"):
            each.optimizer.load_state_dict(other.optimizer.state_dict())


def shares() -> None:
    """Each rank's optimizer has its share of the parameters, and loads the state that was read from it."""
    names = GROUPS["one"][0][0].split()
    options = options_of("flattened")  # else each rank would write its own names under the same key
    runs = [Run("plain", "one", follow=False, seed=seed) for seed in (0, 1)]
    for run in runs:
        mine = [run.named[name] for name in names[rank() :: world()]]
        run.optimizer = AdamPlus(mine, process_group=dist.group.WORLD, weight_decay=0.1)

    def train(run: Run, steps: range) -> None:
        for step in steps:
            torch.manual_seed(step)
            run.model.zero_grad()
            run.model(torch.randn(8, 4)).square().mean().backward()
            run.optimizer.step()
            for i, name in enumerate(names):
                dist.broadcast(run.named[name].detach(), src=i % world())

    run, again = runs
    train(run, FIRST)
    again.optimizer.eval()
    set_optimizer_state_dict(
        again.model,
        again.optimizer,
        get_optimizer_state_dict(run.model, run.optimizer, options=options),
        options=options,
    )
    again.model.load_state_dict(run.model.state_dict())
    assert again.optimizer.training
    assert again.optimizer.stats() == run.optimizer.stats()
    train(run, LAST)
    train(again, LAST)
    assert_close(again.named, run.named, 0.0)


def read_on_a_rank_without_parameters() -> None:
    """Every save reads the state of a rank without parameters. It must not send a message that others receive."""
    model = nn.Linear(3, 1)
    mine = list(model.parameters()) if dist.get_rank() == 0 else []
    optimizer = AdamPlus([{"params": mine}], process_group=dist.group.WORLD)
    for _ in range(2):
        for p in mine:
            p.grad = torch.ones_like(p)
        optimizer.step()
    optimizer.zero_grad()
    before = optimizer.stats().norm_sum
    with nullcontext() if mine else pytest.raises(RuntimeError, match="is empty"):  # torch raises after reading
        get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    total = torch.full((3,), dist.get_rank() + 1.0, dtype=torch.float64)
    dist.all_reduce(total)
    assert total.tolist() == [sum(range(1, dist.get_world_size() + 1))] * 3
    assert optimizer.stats().norm_sum == before


def load(directory: Path, cases: list[dict[str, str]]) -> None:
    for i, case in enumerate(cases):
        saved = torch.load(directory / f"{i}.pt", weights_only=True)
        for j, groups in enumerate(REGROUPED[case["how"]][case["groups"]]):
            # As it was saved, and the other way of parallel training in its place, from another start and in any mode.
            wrap = case["wrap"] if j == 0 else {"ddp": "fully_shard", "fully_shard": "ddp"}[case["wrap"]]
            run = Run(wrap, groups, follow=i % 4 < 2, seed=1, state_dtype=state_dtype(i))
            for group in run.optimizer.param_groups:
                group.update(lr=9.0, beta=0.9)
            run.switch.train((i + j) % 2 == 0)
            run.load(directory / str(i), case["how"])
            assert run.optimizer.training == (case["mode"] == "train")
            assert run.scalars() == saved["scalars"]
            assert run.settings() == saved["settings"]
            assert run.optimizer.stats().norm_sum == saved["norm_sum"]
            run.switch.train()
            run.train(LAST)
            same = world() == saved["world"] and wrap == case["wrap"] and groups == case["groups"]
            # Another number of ranks, or of groups, adds in another order: in float32, a few units in the last bit.
            assert_close(run.w(), saved["w"], 0.0 if same else 1e-6)
            errors = [abs(a / b - 1) for a, b in zip(run.norms(), saved["norms"], strict=True)]
            assert max(errors) <= (0.0 if same else 1e-6), errors


if __name__ == "__main__":
    command, directory, chosen = sys.argv[1], Path(sys.argv[2]), slice(*map(int, sys.argv[3].split(":")))
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    if command == "read":
        read()
        read_on_a_rank_without_parameters()
    if "save" in command:
        save(directory, CASES[chosen])
    if "load" in command:
        load(directory, CASES[chosen])
    if dist.is_initialized():
        dist.barrier()
    os._exit(0)  # gloo's threads may abort the interpreter on its way out, after everything was shown
