"""Tests of Hugging Face's Trainer with Adam⁺: evaluation, checkpoints and resuming."""

from pathlib import Path
from typing import Any

import pytest
import torch
from cases import difference
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from adamplus import AdamPlus, SpectralPlus, spectral_groups
from adamplus.integrations.transformers import AdamPlusCallback

SETTINGS: dict[str, Any] = {"lr": 0.3, "beta": 0.2}
ROUNDING = 1e-6  # w is computed in another order than in the optimizer; ŵ is a thousand times as far away


def weights(model: Any) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


class Watch(TrainerCallback):
    """Callback that records w after each step and the parameters at each evaluation, and may end the run."""

    def __init__(self, fail_at: int | None = None, stop_at: int | None = None) -> None:
        self.fail_at, self.stop_at = fail_at, stop_at
        self.w: dict[int, list[Tensor]] = {}
        self.evaluated: dict[int, list[Tensor]] = {}

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model, optimizer = kwargs["model"], kwargs["optimizer"]
        assert optimizer.param_groups[0]["training"]
        states = [optimizer.state[p] for p in model.parameters()]
        self.w[state.global_step] = [p + s["offset"] * s["z"] for p, s in zip(weights(model), states, strict=True)]
        assert difference(weights(model), self.w[state.global_step]) > 1000 * ROUNDING
        if state.global_step == self.fail_at:
            raise ZeroDivisionError
        if state.global_step == self.stop_at:
            control.should_training_stop = True

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.evaluated[state.global_step] = weights(kwargs["model"])


def trainer(
    path: Path, watch: Watch, *callbacks: TrainerCallback, how: str = "optimizers", **arguments: Any
) -> Trainer:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)  # with dropout, so that resuming depends on the random state
    tokens = torch.arange(8) + torch.arange(40)[:, None] ** 2
    data: Any = [{"input_ids": row % 16, "labels": row % 16} for row in tokens]
    if how == "spectral":
        given: Any = {"optimizers": (SpectralPlus(spectral_groups(model)), None)}
    elif how == "optimizers":
        given = {"optimizers": (AdamPlus(model.parameters(), **SETTINGS), None)}
    else:
        given = {"optimizer_cls_and_kwargs": (AdamPlus, SETTINGS)}
    quiet: Any = {"report_to": [], "disable_tqdm": True, "logging_strategy": "no", "use_cpu": True}
    some: Any = {"max_steps": 24, "per_device_train_batch_size": 4, "save_strategy": "no", "output_dir": path}
    return Trainer(
        model,
        TrainingArguments(**{**quiet, **some, **arguments}),
        train_dataset=data,
        eval_dataset=data[:8],
        callbacks=[watch, *callbacks],
        **given,
    )


@pytest.mark.parametrize("how", ["optimizers", "optimizer_cls_and_kwargs"])
def test_the_trainer_evaluates_at_w_without_the_callback(tmp_path: Path, how: str):
    watch = Watch()
    run = trainer(tmp_path, watch, how=how, eval_strategy="steps", eval_steps=5, weight_decay=0.1)
    run.train()
    assert set(watch.evaluated) == {5, 10, 15, 20, 24}
    for step, seen in watch.evaluated.items():
        assert difference(seen, watch.w[step]) <= ROUNDING
    watch.evaluated.clear()
    run.predict(run.eval_dataset)  # pyright: ignore[reportArgumentType]
    assert difference(watch.evaluated[24], watch.w[24]) <= ROUNDING


def test_without_the_callback_checkpoints_and_the_end_are_at_w_hat(tmp_path: Path):
    """The callback is needed because of this. If the test fails, the Trainer may no longer need the callback."""
    watch = Watch()
    run = trainer(tmp_path, watch, save_strategy="steps", save_steps=8)
    run.train()
    saved = weights(GPT2LMHeadModel.from_pretrained(tmp_path / "checkpoint-8"))
    assert difference(saved, watch.w[8]) > 1000 * ROUNDING
    assert difference(weights(run.model), watch.w[24]) > 1000 * ROUNDING


@pytest.mark.parametrize(
    ("arguments", "saves"),
    [
        ({"save_strategy": "steps", "save_steps": 7}, [7, 14, 21, 24]),
        ({"save_strategy": "steps", "save_steps": 7, "eval_strategy": "steps", "eval_steps": 5}, [7, 14, 21, 24]),
        ({"save_strategy": "epoch"}, [10, 20, 24]),
        ({"save_strategy": "best", "eval_strategy": "epoch", "metric_for_best_model": "loss"}, [10, 20]),
        ({"save_strategy": "steps", "save_steps": 7, "save_only_model": True}, [7, 14, 21, 24]),
        ({}, []),
    ],
    ids=["steps", "steps beside evaluations", "epochs", "best", "model only", "never"],
)
def test_with_the_callback_checkpoints_and_end_are_at_w(tmp_path: Path, arguments: dict[str, Any], saves: list[int]):
    watch = Watch()
    run = trainer(tmp_path, watch, AdamPlusCallback(), **arguments)
    run.train()
    for step in saves:
        saved = weights(GPT2LMHeadModel.from_pretrained(tmp_path / f"checkpoint-{step}"))
        assert difference(saved, watch.w[step]) <= ROUNDING
    run.save_model(str(tmp_path / "final"))
    final = weights(GPT2LMHeadModel.from_pretrained(tmp_path / "final"))
    assert same(final, weights(run.model))
    assert difference(final, watch.w[24]) <= ROUNDING


@pytest.mark.parametrize(
    ("how", "switch", "arguments"),
    [
        ("optimizers", True, {}),
        ("optimizers", False, {"gradient_accumulation_steps": 2}),
        ("optimizer_cls_and_kwargs", True, {"bf16": True, "gradient_accumulation_steps": 2, "max_grad_norm": 0.3}),
    ],
    ids=["callback", "no callback", "callback, bf16, accumulation, clipping"],
)
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_run(
    tmp_path: Path, how: str, switch: bool, arguments: dict[str, Any]
):
    often: Any = {"save_strategy": "steps", "save_steps": 6, "eval_strategy": "steps", "eval_steps": 9, **arguments}

    def run(name: str, resume: bool, fail_at: int | None = None) -> list[Tensor]:
        watch = Watch(fail_at)
        callbacks = [AdamPlusCallback()] if switch else []
        one = trainer(tmp_path / name, watch, *callbacks, how=how, **often)
        one.train(resume_from_checkpoint=resume)
        optimizer: Any = one.optimizer
        return [*weights(one.model), *(state["z"] for state in optimizer.state.values())]

    whole = run("whole", resume=False)
    with pytest.raises(ZeroDivisionError):
        run("part", resume=False, fail_at=17)
    assert same(run("part", resume=True), whole)


def test_the_best_model_is_loaded_and_evaluated_exactly_as_it_was_saved(tmp_path: Path):
    """In train mode, the first evaluation after loading would add the offset of the last step."""
    watch = Watch(stop_at=17)  # a step that is not evaluated
    settings: Any = {"save_steps": 5, "eval_steps": 5, "save_strategy": "steps", "eval_strategy": "steps"}
    best: Any = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": True}
    run = trainer(tmp_path, watch, AdamPlusCallback(), **settings, **best)
    run.train()
    at = run.state.best_global_step
    assert at in (5, 10, 15)
    watch.evaluated.clear()
    run.evaluate()
    assert difference(weights(run.model), watch.w[at]) <= ROUNDING
    assert difference(watch.evaluated[17], watch.w[at]) <= ROUNDING


class WatchSpectral(Watch):
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        with kwargs["optimizer"].optimizer.averaged():
            self.w[state.global_step] = weights(kwargs["model"])
        assert difference(weights(kwargs["model"]), self.w[state.global_step]) > 1000 * ROUNDING
        if state.global_step == self.fail_at:
            raise ZeroDivisionError


def test_spectral_plus_is_evaluated_and_saved_at_w_and_resumes_bit_for_bit(tmp_path: Path):
    often: Any = {"save_strategy": "steps", "save_steps": 6, "eval_strategy": "steps", "eval_steps": 9}

    def run(name: str, resume: bool = False, fail_at: int | None = None) -> tuple[WatchSpectral, list[Tensor]]:
        watch = WatchSpectral(fail_at)
        one = trainer(tmp_path / name, watch, AdamPlusCallback(), how="spectral", **often)
        one.train(resume_from_checkpoint=resume)
        optimizer: Any = one.optimizer
        return watch, [*weights(one.model), *(state["z"] for state in optimizer.state.values())]

    watch, whole = run("whole")
    assert all(difference(watch.evaluated[step], watch.w[step]) <= ROUNDING for step in (9, 18, 24))
    saved = weights(GPT2LMHeadModel.from_pretrained(tmp_path / "whole" / "checkpoint-12"))
    assert difference(saved, watch.w[12]) <= ROUNDING
    with pytest.raises(ZeroDivisionError):
        run("part", fail_at=17)
    assert same(run("part", resume=True)[1], whole)


def test_the_trainers_own_groups_are_no_groups_of_spectral_plus(tmp_path: Path):
    run = trainer(tmp_path, Watch())
    run.optimizer, run.optimizer_cls_and_kwargs = None, (SpectralPlus, {})  # pyright: ignore
    with pytest.raises(ValueError, match="the spectral geometry needs matrices"):
        run.train()


def test_a_run_without_adam_plus_is_refused_before_it_starts(tmp_path: Path):
    run = trainer(tmp_path, Watch(), AdamPlusCallback())
    run.optimizer = torch.optim.AdamW(run.model.parameters())  # pyright: ignore
    before = weights(run.model)
    with pytest.raises(TypeError, match=r"the Trainer has AdamW: leave the callback out"):
        run.train()
    assert same(before, weights(run.model))


class Reporter(TrainerCallback):
    """A reporter as that of TensorBoard or wandb: it keeps what it gets."""

    def __init__(self) -> None:
        self.stats: dict[int, Any] = {}
        self.got: dict[int, dict[str, float]] = {}

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.stats[state.global_step] = kwargs["optimizer"].optimizer.stats()

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.got[state.global_step] = dict(kwargs["logs"])


@pytest.mark.parametrize("log", [True, False])
def test_norm_and_eta_are_logged_with_the_loss(tmp_path: Path, log: bool):
    reporter = Reporter()
    settings: Any = {"logging_strategy": "steps", "logging_steps": 6, "eval_strategy": "steps", "eval_steps": 8}
    run = trainer(tmp_path, Watch(), AdamPlusCallback(log=log), reporter, **settings)
    run.train()
    lines = {int(line["step"]): line for line in run.state.log_history if "loss" in line}
    assert list(lines) == [6, 12, 18, 24]
    for step, line in lines.items():
        stats = reporter.stats[step]
        expected = {"norm": stats.norm, "eta": stats.eta, "norm_sum": stats.norm_sum} if log else {}
        assert {k.removeprefix("optimizer/"): v for k, v in line.items() if "optimizer/" in k} == expected
        if step != 24:  # where the summary of the run comes later
            assert {k: v for k, v in reporter.got[step].items() if "optimizer/" in k}.keys() == {
                f"optimizer/{name}" for name in expected
            }
    assert not any("optimizer/norm" in line for line in run.state.log_history if "loss" not in line)


def test_tensorboard_gets_norm_and_eta_if_its_callback_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from transformers.integrations import TensorBoardCallback

    settings: Any = {"logging_strategy": "steps", "logging_steps": 6}
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    board: Any = TensorBoardCallback()
    trainer(tmp_path, Watch(), AdamPlusCallback(), board, **settings).train()
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    assert [event.step for event in events.Scalars("train/optimizer/norm")] == [6, 12, 18, 24]
    assert all(event.value > 0 for event in events.Scalars("train/optimizer/eta"))


def test_spectral_plus_is_switched_and_logged(tmp_path: Path):
    run = trainer(tmp_path, Watch(), AdamPlusCallback(), logging_strategy="steps", logging_steps=12)
    run.callback_handler.pop_callback(Watch)
    run.optimizer = SpectralPlus(spectral_groups(run.model), lr=0.01)  # pyright: ignore
    run.train()
    assert not run.optimizer.optimizer.training  # pyright: ignore
    assert next(line["optimizer/eta"] for line in run.state.log_history if "loss" in line) > 0
