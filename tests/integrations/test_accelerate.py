"""Tests of Accelerate with Adam⁺, which needs only `follow(model)` or `optimizer.train()` and `optimizer.eval()`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from cases import batch, difference, small_model, values
from torch import Tensor, nn
from torch.utils.data import DataLoader

from adamplus import AdamPlus, SpectralPlus, spectral_groups

MAKE: dict[str, Callable[[nn.Module], AdamPlus | SpectralPlus]] = {
    "AdamPlus": lambda model: AdamPlus(model.parameters()),
    "SpectralPlus": lambda model: SpectralPlus(spectral_groups(model)),
}


@pytest.fixture(autouse=True)
def _forget_the_last_accelerator() -> Iterator[None]:
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)


class Run:
    """A model, its optimizer and data, as Accelerate returns them."""

    def __init__(self, follow: bool, name: str = "AdamPlus", **settings: Any) -> None:
        self.accelerator = Accelerator(cpu=True, **settings)
        model = small_model()
        self.raw = MAKE[name](model)
        data = DataLoader([batch(i) for i in range(24)], batch_size=None)  # pyright: ignore[reportArgumentType]
        schedule = torch.optim.lr_scheduler.StepLR(self.raw, 4, 0.9)
        prepared: Any = self.accelerator.prepare(model, self.raw, data, schedule)
        self.model, self.optimizer, self.data, self.schedule = prepared
        self.followed = follow
        if follow:
            self.raw.follow(self.model)

    def switch(self, training: bool) -> None:
        self.model.train(training)
        if not self.followed:
            self.optimizer.train() if training else self.optimizer.eval()

    def epoch(self) -> None:
        self.switch(training=True)
        for x, y in self.data:
            with self.accelerator.accumulate(self.model):
                self.accelerator.backward(nn.functional.mse_loss(self.model(x), y))
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.schedule.step()
                self.optimizer.zero_grad()
        self.switch(training=False)


def by_hand(each: int, name: str = "AdamPlus") -> tuple[list[Tensor], list[Tensor]]:
    """w and ŵ after one epoch of the same run without Accelerate."""
    model = small_model()
    optimizer = MAKE[name](model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.9)
    for i in range(24):
        x, y = batch(i)
        (nn.functional.mse_loss(model(x), y) / each).backward()
        if (i + 1) % each == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    w_hat = values(optimizer)
    optimizer.eval()
    return values(optimizer), w_hat


@pytest.mark.parametrize("follow", [True, False], ids=["follow", "by hand"])
@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("name", MAKE)
def test_evaluation_is_at_w_with_accumulation_and_clipping(name: str, follow: bool, each: int):
    run = Run(follow, name, gradient_accumulation_steps=each)
    run.epoch()
    w, w_hat = by_hand(each, name)
    assert difference(w_hat, w) > 1e-3
    assert all(torch.equal(a, b) for a, b in zip(values(run.raw), w, strict=True))


@pytest.mark.parametrize("follow", [True, False], ids=["follow", "by hand"])
@pytest.mark.parametrize("evaluating", [True, False], ids=["saved at w", "saved at ŵ"])
@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("name", MAKE)
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_run(
    tmp_path: Path, name: str, follow: bool, evaluating: bool, precision: str
):
    settings: Any = {"name": name, "mixed_precision": precision, "gradient_accumulation_steps": 2}
    run = Run(follow, **settings)
    run.epoch()
    run.switch(training=not evaluating)
    saved = values(run.raw)
    run.accelerator.save_state(str(tmp_path))
    run.epoch()
    AcceleratorState._reset_state(True)

    resumed = Run(follow, **settings)
    resumed.accelerator.load_state(str(tmp_path))
    assert resumed.raw.training is not evaluating
    assert all(torch.equal(a, b) for a, b in zip(values(resumed.raw), saved, strict=True))
    resumed.epoch()
    assert all(torch.equal(a, b) for a, b in zip(values(resumed.raw), values(run.raw), strict=True))


def test_the_model_to_ship_is_saved_at_w(tmp_path: Path):
    from safetensors.torch import load_file

    run = Run(follow=True)
    run.epoch()
    run.accelerator.save_model(run.model, str(tmp_path))
    shipped = load_file(tmp_path / "model.safetensors")
    w, _ = by_hand(1)
    assert all(torch.equal(shipped[name], p) for (name, _), p in zip(run.model.named_parameters(), w, strict=True))


def test_a_step_at_w_raises_through_accelerate():
    run = Run(follow=True)
    run.model.eval()
    run.accelerator.backward(nn.functional.mse_loss(*(run.model(batch(0)[0]), batch(0)[1])))
    with pytest.raises(RuntimeError, match=r"step\(\) in eval mode"):
        run.optimizer.step()
