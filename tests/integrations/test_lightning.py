"""Tests of PyTorch Lightning with Adam⁺: validation, checkpoints and resuming."""

import importlib
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as lightning
import pytest
import pytorch_lightning
import torch
from cases import batch, difference, small_model
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import Logger
from torch import Tensor, nn
from torch.utils.data import DataLoader

from adamplus import AdamPlus, SpectralPlus, spectral_groups
from adamplus.integrations.lightning import AdamPlusCallback
from adamplus.optim._execution import plain

BATCHES = 6  # an epoch


class Regression(lightning.LightningModule):
    """The small model, which records its parameters at every evaluation."""

    def __init__(self, follow: bool = False, **settings: Any) -> None:
        super().__init__()
        self.follow, self.settings = follow, settings
        self.net = small_model()
        self.seen: list[tuple[int, list[Tensor]]] = []

    def weights(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.net.parameters()]

    def training_step(self, data: list[Tensor], index: int) -> Tensor:
        assert all(optimizer.training for optimizer in self.trainer.optimizers if isinstance(optimizer, AdamPlus))
        return nn.functional.mse_loss(self.net(data[0]), data[1])

    def validation_step(self, data: list[Tensor], index: int) -> None:
        self.seen.append((self.trainer.global_step, self.weights()))
        self.log("loss", nn.functional.mse_loss(self.net(data[0]), data[1]))

    test_step = validation_step

    def predict_step(self, data: list[Tensor], index: int) -> Tensor:
        return self.net(data[0])

    def configure_optimizers(self) -> Any:
        optimizer = AdamPlus(self.parameters(), **self.settings)
        if self.follow:
            optimizer.follow(self)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.9)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def adam_plus(model: nn.Module) -> AdamPlus:
    return AdamPlus(model.parameters())


def spectral_plus(model: nn.Module) -> SpectralPlus:
    return SpectralPlus(spectral_groups(model))


class Spectral(Regression):
    def configure_optimizers(self) -> Any:
        optimizer = spectral_plus(self.net)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.9)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class OldName(pytorch_lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = small_model()

    training_step: Any = Regression.training_step
    configure_optimizers: Any = Regression.configure_optimizers
    follow, settings = False, {}


class FailAt(Callback):
    """Callback that ends a run in the middle, like a machine that stops."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self.step:
            raise ZeroDivisionError


def trainer(path: Path, *callbacks: Callback, switch: bool = True, **settings: Any) -> lightning.Trainer:
    quiet: Any = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    quiet["enable_checkpointing"] = any(isinstance(callback, ModelCheckpoint) for callback in callbacks)
    given = [*callbacks, AdamPlusCallback()] if switch else [*callbacks]
    return lightning.Trainer(**{**quiet, "max_epochs": 4, "default_root_dir": path, "callbacks": given, **settings})


def batches(same: bool = False) -> Any:
    """Batches of an epoch. They are all equal if a run resumes inside an epoch, which Lightning restarts."""
    return DataLoader([batch(0 if same else i) for i in range(BATCHES)], batch_size=None)  # pyright: ignore


def twin(
    steps: int, switches: set[int], each: int = 1, clip: float | None = None, same: bool = False, make: Any = adam_plus
) -> Any:
    """The same run without Lightning: {step: w} for the given steps."""
    model = small_model()
    optimizer = make(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.9)
    w = {}
    for i in range(steps):
        for j in range(i * each, (i + 1) * each):
            x, y = batch(0 if same else j % BATCHES)
            (nn.functional.mse_loss(model(x), y) / each).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if i + 1 in switches:
            with optimizer.averaged():
                w[i + 1] = [p.detach().clone() for p in model.parameters()]
    return w


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def net(state: dict[str, Tensor]) -> list[Tensor]:
    return [state[f"net.{name}"] for name, _ in small_model().named_parameters()]


@pytest.mark.parametrize("follow", [False, True], ids=["", "following too"])
def test_validation_sees_w_and_so_does_the_user_after_fit(tmp_path: Path, follow: bool):
    module = Regression(follow)
    trainer(tmp_path).fit(module, batches(), batches())
    w = twin(24, {6, 12, 18, 24})
    assert {step for step, _ in module.seen} == {0, 6, 12, 18, 24}  # 0: the sanity check
    assert all(same(seen, list(small_model().parameters())) for step, seen in module.seen if step == 0)
    assert all(same(seen, w[step]) for step, seen in module.seen if step)
    assert same(module.weights(), w[24])


def test_validation_within_an_epoch_with_accumulation_and_clipping(tmp_path: Path):
    module = Regression()
    settings: Any = {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5, "val_check_interval": 4}
    trainer(tmp_path, max_epochs=6, num_sanity_val_steps=0, **settings).fit(module, batches(), batches())
    w = twin(18, {2, 5, 8, 11, 14, 17, 18}, each=2, clip=0.5)
    assert {step for step, _ in module.seen} == {2, 5, 8, 11, 14, 17}
    assert all(same(seen, w[step]) for step, seen in module.seen)
    assert same(module.weights(), w[18])


def test_without_the_callback_lightning_validates_and_saves_w_hat(tmp_path: Path):
    """The callback is needed because of this. If the test fails, Lightning may no longer need the callback."""
    module = Regression()
    run = trainer(tmp_path, switch=False)
    run.fit(module, batches(), batches())
    run.save_checkpoint(tmp_path / "last.ckpt", weights_only=True)
    w = twin(24, {6, 12, 18, 24})
    assert not any(same(seen, w[step]) for step, seen in module.seen if step)
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert not same(net(saved["state_dict"]), w[24])


def test_without_the_callback_a_followed_model_cannot_continue_after_validation(tmp_path: Path):
    class Followed(Regression):
        training_step: Any = lambda self, data, index: nn.functional.mse_loss(self.net(data[0]), data[1])

    with pytest.raises(RuntimeError, match=r"step\(\) in eval mode"):
        trainer(tmp_path, switch=False).fit(Followed(follow=True), batches(), batches())


@pytest.mark.parametrize("weights_only", [False, True], ids=["all", "weights only"])
@pytest.mark.parametrize("every", [{"every_n_train_steps": 4}, {"every_n_epochs": 1}], ids=["steps", "epochs"])
@pytest.mark.parametrize("validate", [False, True], ids=["", "validating"])
def test_checkpoints_hold_w(tmp_path: Path, weights_only: bool, every: dict[str, int], validate: bool):
    files = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, save_weights_only=weights_only, **every)  # type: ignore
    module = Regression()
    trainer(tmp_path, files, limit_val_batches=1.0 if validate else 0).fit(module, batches(), batches())
    saves = {4, 8, 12, 16, 20, 24} if "every_n_train_steps" in every else {6, 12, 18, 24}
    w = twin(24, saves | ({6, 12, 18, 24} if validate else set()))
    for step in saves:
        loaded = Regression.load_from_checkpoint(tmp_path / f"step={step}.ckpt", weights_only=True)
        assert same(loaded.weights(), w[step])


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")  # the folder to resume from
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended")
@pytest.mark.parametrize("at", [12, 16], ids=["between epochs", "inside an epoch"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true"])
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_run(tmp_path: Path, at: int, precision: Any):
    def run(path: Path, *callbacks: Callback, resume: Path | None = None) -> Regression:
        files = ModelCheckpoint(path, "{step}", save_top_k=-1, every_n_train_steps=4)
        module = Regression()
        settings: Any = {"precision": precision, "accumulate_grad_batches": 1, "gradient_clip_val": 2.0}
        data = batches(same=True)
        trainer(path, files, *callbacks, **settings).fit(module, data, data, ckpt_path=resume, weights_only=True)
        return module

    whole = run(tmp_path / "whole")
    with pytest.raises(ZeroDivisionError):
        run(tmp_path / "part", FailAt(at + 1))
    resumed = run(tmp_path / "part", resume=tmp_path / f"part/step={at}.ckpt")
    assert same(resumed.weights(), whole.weights())
    ends = [torch.load(tmp_path / f"{name}/step=24.ckpt", weights_only=True) for name in ("whole", "part")]
    first, second = (end["optimizer_states"][0] for end in ends)
    (mine,), (other,) = first["param_groups"], second["param_groups"]
    assert mine["training"] is other["training"] is False
    assert mine["lr"] == other["lr"]
    assert torch.equal(mine["record"], other["record"])  # ‖z‖, η, Σ‖z‖
    assert all(torch.equal(first["state"][i]["z"], second["state"][i]["z"]) for i in first["state"])


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")  # the folder to resume from
def test_spectral_plus_is_evaluated_and_saved_at_w_and_resumes_bit_for_bit(tmp_path: Path):
    def run(path: Path, *callbacks: Callback, resume: Path | None = None) -> Regression:
        module = Spectral()
        files = ModelCheckpoint(path, "{step}", save_top_k=-1, every_n_epochs=1)
        trainer(path, files, *callbacks).fit(module, batches(), batches(), ckpt_path=resume, weights_only=True)
        return module

    whole, w = run(tmp_path / "whole"), twin(24, {6, 12, 18, 24}, make=spectral_plus)
    assert all(difference(seen, w[step]) <= 1e-6 for step, seen in whole.seen if step)  # a save switches there and back
    saved = torch.load(tmp_path / "whole" / "step=12.ckpt", weights_only=True)["state_dict"]
    assert difference(net(saved), w[12]) <= 1e-6
    with pytest.raises(ZeroDivisionError):
        run(tmp_path / "part", FailAt(13))
    assert same(run(tmp_path / "part", resume=tmp_path / "part" / "step=12.ckpt").weights(), whole.weights())


def test_a_run_that_fails_leaves_and_saves_w(tmp_path: Path):
    module, files = Regression(), ModelCheckpoint(tmp_path, "{step}", save_on_exception=True)
    with pytest.raises(ZeroDivisionError):
        trainer(tmp_path, FailAt(9), files).fit(module, batches(), batches())
    w = twin(9, {6, 9})[9]
    assert same(module.weights(), w)
    assert same(net(torch.load(tmp_path / "step=9.ckpt", weights_only=True)["state_dict"]), w)


def test_an_interrupted_step_leaves_no_w_and_hides_no_exception(monkeypatch: pytest.MonkeyPatch):
    model = small_model()
    optimizer = AdamPlus(model.parameters(), foreach=False)
    model(batch(0)[0]).square().mean().backward()
    with monkeypatch.context() as patch:
        patch.setattr(plain.Plain, "add_scaled", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            optimizer.step()
    before = [p.detach().clone() for p in model.parameters()]
    run: Any = Mock(optimizers=[optimizer])
    AdamPlusCallback().on_exception(run, Mock(), KeyboardInterrupt())
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_testing_predicting_and_the_best_checkpoint_after_fit(tmp_path: Path):
    best = ModelCheckpoint(tmp_path, "{step}", monitor="loss", mode="max", save_top_k=1)  # max: not the last one
    module = Regression()
    run = trainer(tmp_path, best)
    run.fit(module, batches(), batches())
    w = twin(24, {6, 12, 18, 24})
    module.seen.clear()
    run.test(module, batches(), verbose=False)
    assert all(same(seen, w[24]) for _, seen in module.seen)
    predictions: Any = run.predict(module, batches())
    assert torch.equal(predictions[2], module.net(batch(2)[0]))
    module.seen.clear()
    run.validate(module, batches(), ckpt_path="best", verbose=False, weights_only=True)
    at = int(Path(best.best_model_path).stem.removeprefix("step="))
    assert at != 24
    assert all(same(seen, w[at]) for _, seen in module.seen)


def test_several_optimizers_are_switched_and_other_classes_left_alone(tmp_path: Path):
    class Two(Regression):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, data: list[Tensor], index: int) -> Any:
            self.manual_backward(super().training_step(data, index))
            optimizers: Any = self.optimizers()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

        def configure_optimizers(self) -> Any:
            return three(self.net)

    def three(model: Any) -> Any:
        spectral = SpectralPlus([model[0].weight])
        return AdamPlus([model[0].bias, model[2].bias]), torch.optim.SGD([model[2].weight], 0.1), spectral

    module = Two()
    trainer(tmp_path).fit(module, batches(), batches())
    model, at_w = small_model(), []
    first, sgd, last = three(model)
    for i in range(24):
        x, y = batch(i % BATCHES)
        nn.functional.mse_loss(model(x), y).backward()
        for optimizer in (first, sgd, last):
            optimizer.step()
            optimizer.zero_grad()
        if (i + 1) % BATCHES == 0:
            with first.averaged(), last.averaged():
                at_w = [p.detach().clone() for p in model.parameters()]
    assert same(module.weights(), at_w)


class Log(Logger):
    """A logger that keeps everything in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int, dict[str, float]]] = []

    @property
    def name(self) -> str:
        return "memory"

    @property
    def version(self) -> int:
        return 0

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        assert step is not None
        self.lines.append((step, metrics))

    def of(self, name: str) -> dict[int, float]:
        return {step: metrics[name] for step, metrics in self.lines if name in metrics}


@pytest.mark.parametrize(("each", "steps"), [(1, [5, 10, 15, 20]), (2, [5, 10])])
def test_norm_and_eta_are_logged_every_so_many_steps(tmp_path: Path, each: int, steps: list[int]):
    log = Log()
    settings: Any = {"logger": log, "log_every_n_steps": 5, "accumulate_grad_batches": each}
    trainer(tmp_path, **settings).fit(Regression(), batches(), batches())
    stats = {}
    for step in steps:
        optimizer = AdamPlus((model := small_model()).parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.9)
        for i in range(step * each):
            x, y = batch(i % BATCHES)
            (nn.functional.mse_loss(model(x), y) / each).backward()
            if (i + 1) % each == 0:
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        stats[step] = optimizer.stats()
    assert log.of("optimizer/norm") == pytest.approx({step: s.norm for step, s in stats.items()}, rel=1e-4)
    assert log.of("optimizer/eta") == pytest.approx({step: s.eta for step, s in stats.items()}, rel=1e-4)
    assert log.of("optimizer/norm_sum") == pytest.approx({step: s.norm_sum for step, s in stats.items()}, rel=1e-4)


def test_logging_can_be_turned_off_and_several_optimizers_have_names(tmp_path: Path):
    class Two(Regression):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, data: list[Tensor], index: int) -> Any:
            self.manual_backward(nn.functional.mse_loss(self.net(data[0]), data[1]))
            optimizers: Any = self.optimizers()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

        def configure_optimizers(self) -> Any:
            net: Any = self.net
            return (
                SpectralPlus(spectral_groups(net[:2], head=())),
                AdamPlus(net[2].parameters(), skip_nonfinite=True),
            )

    log = Log()
    trainer(tmp_path, max_epochs=1, logger=log, log_every_n_steps=4).fit(Two(), batches(), batches())
    assert list(log.of("optimizer-0/norm")) == list(log.of("optimizer-1/norm")) == [4, 8, 12]
    assert set(log.of("optimizer-1/skipped").values()) == {0}
    assert not log.of("optimizer-0/skipped")

    for silent in (Log(), None):
        run = trainer(tmp_path, max_epochs=1, logger=silent or False, log_every_n_steps=0 if silent else 1)
        run.fit(Regression(), batches(), batches())
        assert silent is None or not silent.of("optimizer/norm")
    off, module = Log(), Regression()
    quiet: Any = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    callbacks: Any = [AdamPlusCallback(log=False)]
    lightning.Trainer(
        accelerator="cpu", max_epochs=1, logger=off, log_every_n_steps=1, callbacks=callbacks, **quiet
    ).fit(module, batches(), batches())
    assert not off.of("optimizer/norm")


def test_a_run_without_adam_plus_is_refused_before_it_starts(tmp_path: Path):
    class Plain(Regression):
        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    module = Plain()
    with pytest.raises(TypeError, match=r"gave AdamW: leave the callback out"):
        trainer(tmp_path).fit(module, batches(), batches())
    assert not module.seen


def test_the_callback_works_under_the_older_name_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.delitem(sys.modules, "adamplus.integrations.lightning")
    older = importlib.import_module("adamplus.integrations.lightning").AdamPlusCallback
    assert issubclass(older, pytorch_lightning.Callback)
    quiet: Any = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    mixed: Any = AdamPlusCallback  # if both names are installed
    for cls in (older, mixed):
        module = OldName()
        run = pytorch_lightning.Trainer(
            **quiet, max_epochs=4, default_root_dir=tmp_path, callbacks=[cls()], enable_checkpointing=False
        )
        run.fit(module, batches())
        assert same([p.detach() for p in module.net.parameters()], twin(24, {24})[24])
