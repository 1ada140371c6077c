"""Tests of loops without a trainer: a plain loop, a loop like timm's, and a loop with Lightning's Fabric."""

import copy
import math
from pathlib import Path
from typing import Any

import lightning.fabric
import pytest
import torch
from cases import batch, difference, small_model, through_a_file, values
from torch import Tensor, nn

from adamplus import AdamPlus

BATCHES = 6
ROUNDING = 1e-6  # w is computed in another order than in the optimizer; ŵ is a thousand times as far away


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def epoch(model: nn.Module, optimizer: Any, first: int = 0, last: int = BATCHES) -> None:
    model.train()
    for i in range(first, last):
        x, y = batch(i)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def w_of(optimizer: AdamPlus) -> list[Tensor]:
    """w as ŵ + c z, from the parameters in train mode."""
    pairs = [(p, optimizer.state[p]) for group in optimizer.param_groups for p in group["params"]]
    return [p.detach() + s["offset"] * s["z"] for p, s in pairs]


def test_a_plain_loop_evaluates_and_ships_w_and_resumes():
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    optimizer.follow(model)
    for _ in range(4):
        epoch(model, optimizer)
        w, w_hat = w_of(optimizer), values(optimizer)
        model.eval()
        assert difference(values(optimizer), w) <= ROUNDING
        assert difference(w_hat, w) > 1000 * ROUNDING
    saved = through_a_file({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    assert same(list(saved["model"].values()), values(optimizer))
    epoch(model, optimizer)

    fresh = small_model(seed=1)
    again = AdamPlus(fresh.parameters())
    fresh.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    again.follow(fresh.eval())
    epoch(fresh, again)
    assert same(values(again), values(optimizer))


class Timm:
    """Training loop like that of timm's train.py. timm itself needs torchvision.

    It has groups with `lr_scale`, a schedule that writes the groups' lr, an average of the model, `model.train()` and
    `model.eval()`, and one file for everything.
    """

    def __init__(self, seed: int = 0) -> None:
        self.model = small_model(seed)
        named = list(self.model.named_parameters())
        groups = [
            {"params": [p], "weight_decay": 0.05 * (p.ndim > 1), "lr_scale": 0.7 ** (len(named) - i)}
            for i, (_, p) in enumerate(named)
        ]
        self.optimizer = AdamPlus(groups, lr=0.5)
        self.average = copy.deepcopy(self.model)
        self.optimizer.follow(self.model)

    def epochs(self, first: int, last: int) -> None:
        for i in range(first, last):
            for group in self.optimizer.param_groups:
                group["lr"] = 0.5 * (1 + math.cos(math.pi * i / 4)) / 2 * group["lr_scale"]
            epoch(self.model, self.optimizer)
            with torch.no_grad():
                for mean, p in zip(self.average.parameters(), self.model.parameters(), strict=True):
                    mean.lerp_(p, 0.1)
            self.model.eval()

    def save(self) -> dict[str, Any]:
        parts = {"state_dict": self.model, "optimizer": self.optimizer, "state_dict_ema": self.average}
        return through_a_file({name: part.state_dict() for name, part in parts.items()})

    def resume(self, saved: dict[str, Any]) -> None:
        self.model.load_state_dict(saved["state_dict"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.average.load_state_dict(saved["state_dict_ema"])


@pytest.mark.parametrize("recovery", [False, True], ids=["after validation", "within an epoch"])
def test_a_loop_like_that_of_timm_evaluates_w_and_resumes(recovery: bool):
    run = Timm()
    run.epochs(0, 2)
    w = values(run.optimizer)
    if recovery:
        epoch(run.model, run.optimizer, 0, 3)
    saved = run.save()
    assert same(list(saved["state_dict"].values()), w) is not recovery
    run.epochs(2, 4)
    assert not run.optimizer.training
    run.average.train()  # a copy follows no model
    assert not run.optimizer.training

    resumed = Timm(seed=1)
    resumed.resume(saved)
    resumed.epochs(2, 4)
    assert same(values(resumed.optimizer), values(run.optimizer))
    assert same(list(resumed.average.parameters()), list(run.average.parameters()))


def test_a_fabric_loop_evaluates_w_and_resumes(tmp_path: Path):
    def start(seed: int) -> tuple[Any, Any, Any, AdamPlus]:
        fabric = lightning.fabric.Fabric(accelerator="cpu", devices=1)
        raw = AdamPlus((model := small_model(seed)).parameters())
        raw.follow(model)
        wrapped, optimizer = fabric.setup(model, raw)
        return fabric, wrapped, optimizer, raw

    fabric, model, optimizer, raw = start(0)
    epoch(model, optimizer)
    w = w_of(raw)
    model.eval()
    saved = values(raw)
    assert difference(saved, w) <= ROUNDING
    fabric.save(tmp_path / "state.ckpt", {"model": model, "optimizer": optimizer})
    epoch(model, optimizer)

    fabric, again, other, fresh = start(1)
    fabric.load(tmp_path / "state.ckpt", {"model": again, "optimizer": other})
    assert same(values(fresh), saved)
    epoch(again, other)
    assert same(values(fresh), values(raw))
