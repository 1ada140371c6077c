"""One run of the lab: what it measures, and that it goes on as if nothing had happened."""

import copy
import dataclasses
import gc
import math
import os
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
import torch
from blobs import Blobs
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_blobs import PlainBlobs
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn

from adamplus import AdamPlus, update_bn
from adamplus.lab._run import evaluation as _evaluation
from adamplus.lab._run import learner as _learner
from adamplus.lab._run.learner import Learner
from adamplus.lab._run.scheduled_optimizer import Optimizing
from adamplus.lab._store import user_code
from adamplus.lab._store.event_files import Events
from adamplus.lab._store.provenance import git_state
from adamplus.lab._store.spec import Spec, plain
from adamplus.lab._store.store import CorruptError, Run
from adamplus.lab._store.user_code import digest, load_file, own_digest
from adamplus.lab.engines import training
from adamplus.lab.engines.training import train
from adamplus.lab.errors import InputError
from adamplus.lab.models import LanguageModel, forget
from adamplus.lab.optimizers import CONTENDERS
from adamplus.lab.tasks import Moment, Split, Task, find

TASK = str(Path(__file__).parents[1].joinpath("blobs.py"))


class Killed(BaseException):
    """What no handler of errors catches, as a kill."""


def spec(optimizer: str = "adam-plus", task: str = TASK, **changes: Any) -> Spec:
    given = {"settings": {"lr": 0.01}, "seed": 1, "epochs": 4, **changes}
    task_digest = digest(Path(task)) if Path(task).is_file() else "digest"
    return Spec(task, task_digest, optimizer, own_digest(), optimizer, **given)


def learner(optimizer: str = "adam-plus", **changes: Any) -> Learner:
    made = Learner(find(TASK)[0], spec(optimizer, **changes))
    made.prepare()
    return made


def without_times(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if not name.endswith("seconds")} for line in lines]


def kill_at(monkeypatch: pytest.MonkeyPatch, epoch: int) -> None:
    original = Learner.epoch

    def epoch_or_death(self: Learner, number: int, history: list[dict[str, float]]) -> dict[str, float]:
        if number == epoch:
            raise Killed
        return original(self, number, history)

    monkeypatch.setattr(_learner.Learner, "epoch", epoch_or_death)


def killed_at(epoch: int, folder: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str = "adam-plus") -> Run:
    """A run that was killed before that epoch, and has a checkpoint of the one before."""
    run = Run(folder)
    with monkeypatch.context() as patch:
        kill_at(patch, epoch)
        with pytest.raises(Killed):
            train(spec(optimizer), run, checkpoint_every=0.0)
    return run


@pytest.mark.parametrize("optimizer", list(CONTENDERS))
def test_a_killed_run_goes_on_bit_for_bit(optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = Run(tmp_path / "whole")
    train(spec(optimizer), whole)
    killed = killed_at(3, tmp_path / "killed", monkeypatch, optimizer)
    checkpoint = killed.checkpoint()
    assert checkpoint is not None
    assert checkpoint["epoch"] == 3
    train(spec(optimizer), killed)
    assert without_times(killed.metrics()) == without_times(whole.metrics())
    walls = [line["wall_seconds"] for line in killed.metrics()]
    assert walls == sorted(walls)  # the time before the kill counts
    assert all(line["wall_seconds"] > line["seconds"] for line in killed.metrics())
    assert [run.end()["status"] for run in (whole, killed)] == ["finished", "finished"]  # type: ignore[index]
    assert not (killed.folder / "checkpoint.pt").exists()


def test_epochs_after_the_last_checkpoint_are_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    train(spec(), whole)
    with monkeypatch.context() as patch:
        kill_at(patch, 3)
        with pytest.raises(Killed):
            train(spec(), killed, checkpoint_every=1e9)  # three epochs of metrics, and no checkpoint
    with (killed.folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 4, "st')  # a line that the kill has cut off
    train(spec(), killed)
    assert without_times(killed.metrics()) == without_times(whole.metrics())


def test_lines_after_the_checkpoint_may_be_damaged(tmp_path: Path):
    """As where power was lost: they are on the disk for certain only with the next checkpoint."""
    run = Run(tmp_path)
    for epoch in (1, 2, 3, 4):
        run.append({"epoch": epoch})
        if epoch == 2:
            run.save({"epoch": 2})
    path = run.folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'{"epoch": 3}', bytes(12)))
    run.cut()
    assert run.metrics() == [{"epoch": 1}, {"epoch": 2}]


@pytest.mark.parametrize(("cost", "expected"), [(0.125, [5, 18, 31]), (0.03125, [*range(5, 40, 5)]), (9.0, [5, 305])])
def test_checkpoints_take_their_share_of_the_time(
    cost: float, expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now, saved, original = [0.0], list[int](), Run.save

    def save(self: Run, content: dict[str, Any]) -> None:
        original(self, content)
        saved.append(content["epoch"])
        now[0] += cost  # 0.125 s are 1 % of 12.5; 9 s are that of 900, which is too long

    def epoch(self: Learner, number: int, history: list[dict[str, float]]) -> dict[str, float]:
        now[0] += 1
        self.steps, self.seconds = self.steps + 1, self.seconds + 1
        return {"epoch": number + 1}

    monkeypatch.setattr(Run, "save", save)
    monkeypatch.setattr(Learner, "epoch", epoch)
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    train(spec(epochs=40 if cost < 1 else 310), Run(tmp_path / "run"), checkpoint_every=5.0)
    assert saved == expected


def test_a_run_that_has_ended_keeps_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made: list[weakref.ref[Learner]] = []
    original = Learner.prepare
    monkeypatch.setattr(Learner, "prepare", lambda self: (made.append(weakref.ref(self)), original(self))[1])
    gc.collect()
    gc.disable()  # of itself, or a model that fills half of the memory would leave no room for the next
    try:
        train(spec(), Run(tmp_path / "run"))
        assert [one() for one in made] == [None]
    finally:
        gc.enable()


def test_a_checkpoint_for_which_there_is_no_room_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = killed_at(3, tmp_path / "run", monkeypatch)

    def full(self: Learner, state: dict[str, Any]) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "load", full)
        train(spec(), run)
    end = run.end()
    assert end is not None
    assert (end["status"], end["reason"]) == ("failed", "OutOfMemoryError: CUDA out of memory")
    (run.folder / "end.json").unlink()
    begun: list[int] = []
    original = Learner.epoch
    monkeypatch.setattr(Learner, "epoch", lambda self, n, history: (begun.append(n), original(self, n, history))[1])
    train(spec(), run)
    assert begun == [3]


def test_a_run_that_goes_on_elsewhere_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = killed_at(3, tmp_path / "run", monkeypatch)
    assert "resumed" not in run.settings()
    here = training.certificate(torch.device("cpu"))
    there = here | {"hardware": "an abacus", "started": "tomorrow"}
    monkeypatch.setattr(training, "certificate", lambda device: there)
    train(spec(), run)
    assert run.settings()["hardware"] == here["hardware"]
    names = ("versions", "hardware", "git", "started")
    assert run.settings()["resumed"] == [{"epoch": 4, **{name: there[name] for name in names}}]


def test_every_optimizer_starts_from_the_same_model():
    starts = [torch.cat([p.flatten() for p in learner(name).model.parameters()]) for name in CONTENDERS]
    assert all(torch.equal(start, starts[0]) for start in starts)
    assert not torch.equal(torch.cat([p.flatten() for p in learner(seed=2).model.parameters()]), starts[0])


def test_a_run_that_diverges_ends_with_its_reason(tmp_path: Path):
    run = Run(tmp_path / "run")
    train(spec("sgd", settings={"lr": 1e30}), run)
    end = run.end()
    assert end is not None
    assert end["status"] == "diverged"
    assert "loss" in end["reason"]
    assert "epoch 1" in end["reason"]
    assert len(run.metrics()) == 1


class Broken(Blobs):
    def augment(self, x: Tensor) -> Tensor:
        raise RuntimeError("no such images")


def test_an_error_of_the_task_is_kept_as_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training.tasks, "find", lambda name: (Broken(), spec().task_digest))
    run = Run(tmp_path / "run")
    train(spec(), run)
    end = run.end()
    assert end is not None
    assert (end["status"], end["reason"]) == ("failed", "RuntimeError: no such images")
    assert "augment" in end["traceback"]


def test_an_error_leaves_no_event_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    closed: list[Events] = []
    close = Events.close
    monkeypatch.setattr(Events, "close", lambda self: (closed.append(self), close(self)))
    monkeypatch.setattr(training.tasks, "find", lambda name: (Broken(), spec().task_digest))
    train(spec(), Run(tmp_path / "run"))
    assert len(closed) == 1


class Odd(Blobs):
    def data(self) -> dict[str, Split]:
        splits = super().data()
        x, y = splits["train"]
        return {**splits, "train": (x[:33], y[:33])}


def test_steps_that_nobody_takes_are_not_counted():
    """Of 33 rows two processes leave out the last, and take two steps of 16 an epoch."""
    made = Learner(Odd(), spec())
    made.prepare()
    made.rank, made.world = 0, 2  # as far as steps go
    assert [made.epoch(i, [])["step"] for i in range(2)] == [2, 4]


def test_a_full_disk_is_no_fault_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Run, "append", full)
    run = Run(tmp_path / "run")
    with pytest.raises(OSError, match="No space left"):
        train(spec(), run)
    assert run.end() is None


@pytest.mark.parametrize("optimizer", ["adam-plus", "schedule-free-adamw", "adam"])
def test_evaluation_leaves_every_bit_in_its_place(optimizer: str):
    made = learner(optimizer)
    made.epoch(0, [])
    before = copy.deepcopy((made.model.state_dict(), made.optimizer.state_dict()["state"]))
    modes = [module.training for module in made.model.modules()]
    made.evaluation.metrics(made.optimizer)
    after = made.model.state_dict(), made.optimizer.state_dict()["state"]
    assert all(torch.equal(before[0][name], value) for name, value in after[0].items())
    torch.testing.assert_close(before[1], after[1], rtol=0, atol=0)
    assert [module.training for module in made.model.modules()] == modes


class Still(Blobs):
    def augment(self, x: Tensor) -> Tensor:
        return x


def test_metrics_are_those_of_w_with_its_own_statistics_and_of_w_hat():
    made = Learner(Still(), spec())
    made.prepare()
    line = made.epoch(0, [])
    x, y = made.data["test"]
    optimizer = made.optimizer
    assert isinstance(optimizer, AdamPlus)
    made.model.eval()

    @torch.no_grad()
    def loss() -> float:
        return float(nn.functional.cross_entropy(made.model(x), y))

    at_w_hat = loss()
    assert line["test_loss_hat"] == pytest.approx(at_w_hat, rel=1e-6)
    update_bn(made.evaluation._training_batches(), made.model, optimizer)
    with optimizer.averaged():
        at_w = loss()
    assert line["test_loss"] == pytest.approx(at_w, rel=1e-6)
    assert abs(at_w - at_w_hat) > 1e-4 * at_w


def test_optimizers_with_one_point_have_one_set_of_metrics():
    line = learner("adam").epoch(0, [])
    assert not [name for name in line if name.endswith("_hat")]
    assert {"train_loss", "validation_accuracy", "test_accuracy", "running_accuracy"} <= line.keys()
    assert "norm_sum" not in line


def test_running_means_count_every_row_once():
    class Counting(Blobs):
        seen: list[int] = []  # noqa: RUF012 - of this test

        def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
            if outputs.requires_grad:
                self.seen.append(len(y))
            return super().loss(outputs, y)

        def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
            return {"ones": y.double().mean()}

    made = Learner(Counting(), spec("sgd"))
    made.prepare()
    line = made.epoch(0, [])
    assert Counting.seen == [16] * 12 + [8]
    assert line["step"] == 13
    assert line["running_ones"] == pytest.approx(float(made.data["train"][1].double().mean()), rel=1e-12)


def test_a_schedule_scales_the_settings_of_the_start():
    made = learner("msgd", settings={"lr": 0.5})
    lines: list[dict[str, float]] = []
    for number in range(4):
        lines.append(made.epoch(number, lines))
    assert [line["lr"] for line in lines] == [0.5, 0.5, 0.05, 0.05]
    assert made.optimizer.param_groups[0]["lr"] == 0.05


def test_a_setting_that_a_schedule_names_no_more_goes_back_also_after_a_resumption(monkeypatch: pytest.MonkeyPatch):
    task, _ = find(TASK)
    monkeypatch.setattr(task, "schedule", lambda now: {"lr": 0.1} if now.epoch < 2 else {})
    whole, first, again = (Learner(task, spec("msgd", settings={"lr": 0.5})) for _ in range(3))
    for made in (whole, first):
        made.prepare()
        for number in range(2):
            made.epoch(number, [])
    again.load(first.state())
    again.prepare()
    assert without_times([again.epoch(2, [])]) == without_times([whole.epoch(2, [])])
    assert again.optimizer.param_groups[0]["lr"] == whole.optimizer.param_groups[0]["lr"] == 0.5


def test_a_stepwise_schedule_is_asked_before_each_step(monkeypatch: pytest.MonkeyPatch):
    task, _ = find(TASK)
    monkeypatch.setattr(task, "stepwise", True)
    monkeypatch.setattr(task, "schedule", lambda now: {"lr": 1 - now.progress})
    made, seen = Learner(task, spec("sgd", epochs=2, settings={"lr": 0.5})), []
    made.optimizer.register_step_pre_hook(lambda optimizer, *_: seen.append(optimizer.param_groups[0]["lr"]))
    made.prepare()
    lines = [made.epoch(number, []) for number in range(2)]
    steps, rows = int(lines[0]["step"]), len(made.data["train"][0])
    expected = [0.5 * (1 - (epoch + i * task.batch / rows) / 2) for epoch in range(2) for i in range(steps)]
    assert seen == pytest.approx(expected, rel=1e-12)
    assert [line["lr"] for line in lines] == pytest.approx([expected[steps - 1], expected[-1]])


class Stream(Task):
    """Rows that count upwards, and a model that remembers whether they did."""

    batch = 1
    ordered = True

    def data(self) -> dict[str, Any]:
        x = torch.arange(6.0).view(6, 1, 1)
        return dict.fromkeys(("train", "validation", "test"), (x, x))

    def model(self) -> nn.Module:
        model = nn.Linear(1, 1)
        self.seen: list[float] = []
        model.register_forward_hook(lambda _, inputs, __: self.seen.append(float(inputs[0])))
        return model

    def begin(self, model: nn.Module) -> None:
        self.seen.append(math.inf)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs - y).square().mean()


def test_a_stream_is_visited_in_its_order_and_begun_anew_at_each_pass():
    task = Stream()
    made = Learner(task, spec("sgd"))
    made.prepare()
    made.epoch(0, [])
    assert task.seen == [math.inf, *range(6)] * 4  # training, and three splits


def test_precision_is_that_of_forward_passes():
    made = learner("sgd", precision="bfloat16")
    seen: list[torch.dtype] = []
    made.model[0].register_forward_hook(lambda *arguments: seen.append(arguments[-1].dtype))  # type: ignore[index]
    made.epoch(0, [])
    assert set(seen) == {torch.bfloat16}
    assert {p.dtype for p in made.model.parameters()} == {torch.float32}


def test_metrics_are_one_line_of_pandas_and_in_tensorboard(tmp_path: Path):
    run = Run(tmp_path / "run")
    train(spec(), run)
    frame = pd.read_json(run.folder / "metrics.jsonl", lines=True)
    assert list(frame["epoch"]) == [1, 2, 3, 4]
    assert list(frame["test_loss"]) == pytest.approx([line["test_loss"] for line in run.metrics()], rel=1e-9)
    events = EventAccumulator(str(run.folder)).Reload()
    assert [event.step for event in events.Scalars("test_loss")] == [1, 2, 3, 4]
    assert [e.value for e in events.Scalars("test_loss")] == pytest.approx(list(frame["test_loss"]), rel=1e-6)


def test_settings_tell_of_those_that_nobody_has_given(tmp_path: Path):
    run = Run(tmp_path / "run")
    train(spec("adamw"), run)
    told = run.settings()["optimizer"]
    assert (told["lr"], told["weight_decay"], told["eps"], told["betas"]) == (0.01, 0.01, 1e-8, [0.9, 0.999])  # torch's
    assert "params" not in told


def test_settings_tell_where_the_numbers_come_from(tmp_path: Path):
    run = Run(tmp_path / "run")
    train(spec(), run)
    found = run.settings()
    assert found["spec"] == spec().to_json()
    assert found["task"]["description"] == "Which half of an image is brighter."
    assert found["task"]["rows"] == {"train": 200, "validation": 50, "test": 50}
    assert found["parameters"] == 4 * 9 + 4 + 8 + 34
    assert {"python", "torch", "adamplus"} <= found["versions"].keys()
    assert {"commit", "dirty"} == found["git"].keys()
    end = run.end()
    assert end is not None
    assert end["state_bytes"] == 4 * found["parameters"] + 8 * 6  # z, and offset and step of each tensor
    assert end["steps_per_second"] > 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("settings.json", "{"),
        ("settings.json", "[]"),
        ("settings.json", '{"spec": {"task": "another"}}'),
        ("metrics.jsonl", "nonsense\n"),
        ("metrics.jsonl", '{"epoch": 2}\n'),
        ("metrics.jsonl", ""),
        ("end.json", '{"status": "perhaps"}'),
        ("end.json", "\x00"),
    ],
)
def test_what_cannot_be_read_is_told(name: str, content: str, tmp_path: Path):
    run = Run(tmp_path / "run")
    train(spec(), run)
    run.check(spec())
    (run.folder / name).write_text(content)
    with pytest.raises(CorruptError, match=name):
        run.check(spec())


@pytest.mark.parametrize("content", [b"", b"half a file", b"PK\x03\x04"])
def test_half_a_checkpoint_is_told(content: bytes, tmp_path: Path):
    run = Run(tmp_path / "run")
    run.begin({"spec": spec().to_json()})
    (run.folder / "checkpoint.pt").write_bytes(content)
    with pytest.raises(CorruptError, match=r"checkpoint\.pt"):
        train(spec(), run)


@pytest.mark.parametrize("content", [{"x": 1}, [1], {"epoch": "a", "learner": {}}])
def test_a_checkpoint_of_something_else_is_told(content: object, tmp_path: Path):
    run = Run(tmp_path / "run")
    run.begin({"spec": spec().to_json()})
    torch.save(content, run.folder / "checkpoint.pt")
    with pytest.raises(CorruptError, match="is no checkpoint of a run"):
        train(spec(), run)


def test_a_checkpoint_that_does_not_fit_is_told(tmp_path: Path):
    run = Run(tmp_path / "run")
    run.begin({"spec": spec().to_json()})
    run.append({"epoch": 1})
    run.save({"epoch": 1, "learner": {"model": {}, "optimizer": {}, "steps": 1, "seconds": 1.0}})
    with pytest.raises(CorruptError, match="does not fit"):
        train(spec(), run)


@given(st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_no_name_leads_out_of_the_store(name: str):
    part = plain(name)
    assert part not in ("", ".", "..")
    assert len(Path(part).parts) == 1
    folder = spec(task=name).folder()
    assert not folder.is_absolute()
    assert ".." not in folder.parts
    assert len(folder.parts) == 3


def test_probes_measure_and_change_no_bit():
    plain, probed = learner(), learner(probe=True)
    for number in range(2):
        expected, found = plain.epoch(number, []), probed.epoch(number, [])
        errors = {name: found.pop(name) for name in ("z_error", "g_error", "gradient")}
        assert without_times([found]) == without_times([expected])
        assert all(math.isfinite(value) and value > 0 for value in errors.values())
    assert not {"z_error", "g_error"} & learner("adam", probe=True).epoch(0, []).keys()


def test_a_probe_in_a_run_is_the_probe_of_the_theory():
    class Whole(Blobs):  # one batch is all data, and nothing is random: g is ∇F
        batch = 200

        def model(self) -> nn.Module:
            return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))

        def augment(self, x: Tensor) -> Tensor:
            return x

    made = Learner(Whole(), spec(probe=True))
    made.prepare()
    line = made.epoch(0, [])
    assert line["g_error"] < 1e-6 * line["gradient"]


def test_the_first_batch_is_a_step_of_its_own():
    made = learner("sgd", first_batch=200, settings={"lr": 0.5})
    line = made.epoch(0, [])
    assert line["step"] == 14  # 13 of the epoch, and one before them
    assert made.epoch(1, [])["step"] == 27
    large = Learner(PlainBlobs(), spec("sgd", first_batch=4000, settings={"lr": 1.0}))
    large.prepare()
    before = [p.detach().clone() for p in large.model.parameters()]
    large.first_step(4000)
    moved = [b - p.detach() for b, p in zip(before, large.model.parameters(), strict=True)]
    for p, b in zip(large.model.parameters(), before, strict=True):
        p.data.copy_(b)
    large.optimizer.zero_grad()
    large.loss(torch.arange(200))[0].backward()
    true = [p.grad for p in large.model.parameters()]
    for step, gradient in zip(moved, true, strict=True):
        assert gradient is not None
        assert float((step - gradient).norm()) < 0.2 * float(gradient.norm())  # 4,000 draws of 200 rows


def test_asking_git_locks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    git = tmp_path / "git"
    git.write_text('#!/bin/sh\necho "$@" >> "$0.calls"; [ "$2" = status ] || echo 0123\n')
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state() == {"commit": "0123", "dirty": False}
    calls = (tmp_path / "git.calls").read_text().splitlines()
    assert len(calls) == 2
    assert all(call.startswith("--no-optional-locks ") for call in calls)


def test_code_that_has_travelled_without_its_repository_is_told_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state() == {"commit": None, "dirty": None}
    monkeypatch.setenv("ADAMPLUS_COMMIT", "0123")
    assert git_state() == {"commit": "0123", "dirty": None}


@pytest.mark.parametrize(
    ("edited", "same"),
    [
        (
            '"""Other words,\non lines."""\n# and more\n\ndef f(x):\n\n    # why\n    """Twice."""\n    return 2 * x\n',
            True,
        ),
        ('"""A file."""\ndef f(x):\n    """Twice."""\n    return 3 * x\n', False),
        ('"""A file."""\ndef f(x):\n    return 2 * x\n', True),
        ('"""A file."""\ndef f(x): "Twice."; return 3 * x\n', False),
        ('"""A file."""\ndef f(x):\n    """Twice."""\n    return (2 * # why\n            x)\n', True),
        ('"""A file."""\nNAME = """words"""\ndef f(x):\n    """Twice."""\n    return 2 * x\n', False),
    ],
)
def test_what_a_file_does_is_digested_and_not_what_it_says(edited: str, same: bool, tmp_path: Path):
    file, other = tmp_path / "a.py", tmp_path / "b.py"
    file.write_text('"""A file."""\n\n\ndef f(x):\n    """Twice."""\n    return 2 * x\n')
    other.write_text(edited)
    assert (digest(file) == digest(other)) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('TEXT = """\n# one\n"""\n', 'TEXT = """\n# two\n"""\n'),
        ('TEXT = """a\nb"""\n', 'TEXT = """a\n\nb"""\n'),
        ('def lr(): "rate"; return 0.1\n', 'def lr(): "rate"; return 0.9\n'),
        ('class A: "doc"; batch = 8\n', 'class A: "doc"; batch = 64\n'),
        ('"""1"""\nn = int(__doc__)\n', '"""2"""\nn = int(__doc__)\n'),
        ('x = f"{1}"\n', 'x = f"{1} "\n'),
        ('x = f"""{1}\n# a"""\n', 'x = f"""{1}\n# b"""\n'),
        ("if x:\n    a()\n    b()\n", "if x:\n    a()\nb()\n"),
    ],
)
def test_two_programs_have_two_digests(one: str, other: str, tmp_path: Path):
    (tmp_path / "a.py").write_text(one)
    (tmp_path / "b.py").write_text(other)
    assert digest(tmp_path / "a.py") != digest(tmp_path / "b.py")


def graphed(monkeypatch: pytest.MonkeyPatch, optimizer: str) -> Learner:
    """A learner that believes in graphs: what Python sees of them, on a CPU. A replay leaves `p.grad` as it is, and
    its gradients in places of the graph's own.
    """

    def capture(function: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
        before = copy.deepcopy(model.state_dict())
        function()
        own = [p.grad for p in model.parameters()]
        model.load_state_dict(before)

        def replay() -> None:
            seen = [p.grad for p in model.parameters()]
            function()
            for p, mine, old in zip(model.parameters(), own, seen, strict=True):
                mine.copy_(p.grad)  # type: ignore[union-attr]
                p.grad = old

        return replay

    monkeypatch.setattr(_learner, "capture", capture)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    made = Learner(PlainBlobs(), spec(optimizer))
    made.graphed = True
    made.prepare()
    made.cursor.zero_()
    return made


@pytest.mark.parametrize("optimizer", ["adagrad", "schedule-free-sgd", "muon"])
def test_steps_outside_of_graphs_find_the_gradients_of_the_graph_that_was_replayed(
    optimizer: str, monkeypatch: pytest.MonkeyPatch
):
    plain = Learner(PlainBlobs(), spec(optimizer))
    plain.prepare()
    captured = graphed(monkeypatch, optimizer)  # 200 rows in batches of 16: two graphs, of 16 and of 8 rows
    for number in range(2):
        assert without_times([captured.epoch(number, [])]) == without_times([plain.epoch(number, [])])


def test_a_file_that_has_changed_is_not_trained_under_its_old_name(tmp_path: Path):
    task = tmp_path / "blobs_again.py"
    task.write_text(Path(TASK).read_text())
    old = spec(task=str(task))
    task.write_text(Path(TASK).read_text() + "EDITED = True\n")
    with pytest.raises(InputError, match="has changed since the comparison began"):
        train(old, Run(tmp_path / "run"))
    with pytest.raises(InputError, match="adam-plus has changed"):
        train(dataclasses.replace(spec(), optimizer_digest="of another version"), Run(tmp_path / "run"))


def test_a_file_is_executed_once_as_long_as_it_stays_the_same(tmp_path: Path):
    file = tmp_path / "counting.py"
    file.write_text("value = object()\n")
    first = load_file(file, "a task")
    assert load_file(file, "a task").value is first.value
    file.write_text("value = object()  # edited\n")
    assert load_file(file, "a task").value is not first.value
    file.write_text("raise ValueError\n")
    for _ in range(2):
        with pytest.raises(InputError, match="line 1: ValueError"):
            load_file(file, "a task")


class Sorted(Blobs):
    """Rows by class, more of them than are evaluated at once, and a last batch of one row."""

    def data(self) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(0)
        y = torch.arange(501) // 251
        x = torch.randn(501, 1, 4, 4, generator=generator) + 3.0 * y.view(-1, 1, 1, 1)
        some = torch.randperm(501, generator=generator)[:100]
        return {"train": (x, y), "validation": (x[some], y[some]), "test": (x[some], y[some])}

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def test_statistics_at_w_are_those_of_all_classes_however_rows_are_sorted():
    made = Learner(Sorted(), spec("adam-plus", settings={"lr": 0.5}))
    made.prepare()
    line = [made.epoch(number, []) for number in range(3)][-1]
    assert line["test_accuracy"] > 0.95  # 0.83, with statistics of the first class alone
    assert line["train_accuracy"] > 0.9  # a sample of both classes, too
    sizes = [len(batch) for batch in made.evaluation._training_batches()]
    assert sizes == [64] * 7


def test_rows_evaluated_at_once_are_the_tasks_to_say():
    class Few(Blobs):
        evaluation_rows = 10

    made = Learner(Few(), spec("sgd"))
    made.prepare()
    seen: list[int] = []
    made.model.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    made.evaluation.metrics(made.optimizer)
    assert set(seen) == {10}


def test_a_schedule_that_says_nothing_means_the_settings_of_the_start():
    class Once(Blobs):
        def schedule(self, now: Moment) -> dict[str, float]:
            return {"lr": 0.1} if now.epoch == 1 else {}

    made = Learner(Once(), spec("sgd", settings={"lr": 1.0}))
    made.prepare()
    assert [made.epoch(number, [])["lr"] for number in range(3)] == [1.0, 0.1, 1.0]
    assert made.optimizer.param_groups[0]["lr"] == 1.0


def test_a_schedule_of_what_nobody_has_or_a_graph_cannot_change_is_refused():
    made = learner("msgd")
    with pytest.raises(InputError, match="'learning_rate', which no optimizer has"):
        made.optimizing.set({"learning_rate": 0.1})
    made.optimizing.captured, made.optimizing.tensors = True, ("lr",)
    with pytest.raises(InputError, match="capture = False"):
        made.optimizing.set({"momentum": 0.5})


def test_dampening_is_not_captured():
    assert not Optimizing(spec("msgd", settings={"lr": 1.0, "dampening": 0.5}), nn.Linear(1, 1), captured=True).captured


def test_ranks_have_random_numbers_of_their_own_and_the_same_order():
    class Seen(PlainBlobs):
        drawn: list[float] = []  # noqa: RUF012 - of this test

        def augment(self, x: Tensor) -> Tensor:
            self.drawn.append(float(torch.rand(())))
            return x

    orders = []
    for rank in (0, 1):
        made = Learner(Seen(), spec("sgd"))
        made.prepare()
        made.rank = rank
        made.epoch(0, [])
        orders.append(made.order.clone())
    assert torch.equal(*orders)
    half = len(Seen.drawn) // 2
    assert Seen.drawn[:half] != Seen.drawn[half:]


def test_event_files_have_each_epoch_once_after_a_restart_without_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = Run(tmp_path / "run")
    with monkeypatch.context() as patch:
        kill_at(patch, 3)
        with pytest.raises(Killed):
            train(spec(), run, checkpoint_every=1e9)
    time.sleep(1.1)  # a file of events has its second in its name
    train(spec(), run)
    events = EventAccumulator(str(run.folder)).Reload()
    assert [event.step for event in events.Scalars("test_loss")] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["running_loss", "test_loss", "validation_loss", "test_loss_hat", "train_loss_hat"])
def test_a_run_diverges_by_any_of_its_losses(name: str):
    assert training._diverged({"epoch": 3, name: math.nan}) == f"{name} is nan in epoch 3"
    assert training._diverged({"epoch": 3, name: math.inf}) == f"{name} is inf in epoch 3"
    assert training._diverged({"epoch": 3, name: 1e30, "test_perplexity": math.inf}) is None


def test_the_digest_of_what_decides_numbers_has_torch_and_every_file_of_the_loop(monkeypatch: pytest.MonkeyPatch):
    seen: list[Path] = []
    read = user_code._deeds
    monkeypatch.setattr(user_code, "_deeds", lambda path: seen.append(path) or read(path))
    before = own_digest.__wrapped__()
    package = Path(user_code.__file__).parents[2]
    for room in ("optim", "lab/_run", "lab/optimizers", "lab/models"):
        assert set((package / room).rglob("*.py")) < set(seen)
    assert package / "optim" / "_execution" / "native.c" in seen
    assert package / "lab" / "_run" / "learner.py" in seen
    monkeypatch.setattr(torch, "__version__", "another")
    assert own_digest.__wrapped__() != before


class Reading(Task):
    """Windows of words by a model that remembers, with gradients that are shortened much."""

    batch, ordered, clip, train_rows = 1, True, 1e-3, 0

    def data(self) -> Any:
        words = torch.randint(9, (12, 4, 7), generator=torch.Generator().manual_seed(0))
        return {"train": (words, words), "test": (words[:3], words[:3])}

    def model(self) -> nn.Module:
        return LanguageModel(9, streams=4, width=8, dropout=0.0)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs.flatten(0, -2), y.flatten())

    def begin(self, model: nn.Module) -> None:
        forget(model)


def test_a_first_batch_is_clipped_and_forgotten():
    made = Learner(Reading(), spec("sgd", first_batch=5, settings={"lr": 1.0}))
    made.prepare()
    before = [p.detach().clone() for p in made.model.parameters()]
    made.first_step(5)
    moved = torch.stack([(b - p.detach()).norm() for b, p in zip(before, made.model.parameters(), strict=True)])
    assert float(moved.norm()) == pytest.approx(1e-3, rel=1e-3)
    assert all(not buffer.any() for buffer in made.model.buffers())


def test_metrics_have_the_same_names_for_every_batch():
    class Fickle(PlainBlobs):
        def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
            return {"half" if len(y) < self.batch else "whole": outputs.mean()}

    made = Learner(Fickle(), spec("sgd"))
    made.prepare()
    with pytest.raises(InputError, match="metrics are loss, whole of one batch and loss, half of another"):
        made.epoch(0, [])


def test_metrics_are_on_the_disk_before_what_relies_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """And every file is, before it takes the place of the one before."""
    events: list[str] = []
    sync, rename = os.fsync, Path.replace

    def synced(number: int) -> None:
        events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{number}')).name}")
        sync(number)

    def renamed(self: Path, target: Path) -> Path:
        events.append(f"rename {self.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    run = Run(tmp_path)
    run.append({"epoch": 1})
    run.save({"epoch": 1})
    saved = ["sync metrics.jsonl", "sync checkpoint.pt.new", "rename checkpoint.pt.new"]
    assert events == saved
    run.finish({"status": "finished"})
    assert events[3:] == ["sync metrics.jsonl", "sync end.json.new", "rename end.json.new"]


def test_an_evaluations_graph_is_made_anew_where_parameters_have_moved(monkeypatch: pytest.MonkeyPatch):
    """As by an optimizer whose eval() puts other tensors there: a graph reads where it was captured."""
    captured: list[int] = []

    def capture(function: Any, model: nn.Module) -> Any:
        places = [p.data_ptr() for p in model.parameters()]
        captured.append(len(captured))

        def replay() -> None:
            assert places == [p.data_ptr() for p in model.parameters()]
            function()

        return replay

    monkeypatch.setattr(_evaluation, "capture", capture)
    made = learner("sgd")
    evaluation = _evaluation.Evaluation(made.task, made.model, made.model, made.data, made.autocast, graphed=True)
    first = evaluation.metrics(made.optimizer)
    kinds = len(captured)
    assert evaluation.metrics(made.optimizer) == first
    assert len(captured) == kinds > 0
    for p in made.model.parameters():
        p.data = 2 * p.data
    assert evaluation.metrics(made.optimizer) != first
    assert len(captured) == 2 * kinds


def test_gradients_are_shortened_to_the_clip():
    class Clipped(PlainBlobs):
        clip = 0.01

    made = Learner(Clipped(), spec("sgd"))
    made.prepare()
    norms: list[float] = []

    def note(*_: Any) -> None:
        norms.append(float(torch.cat([cast("Tensor", p.grad).flatten() for p in made.model.parameters()]).norm()))

    made.optimizer.register_step_pre_hook(note)
    made.epoch(0, [])
    assert norms == pytest.approx([0.01] * 13, rel=1e-4)


def test_every_epoch_has_an_order_of_its_own():
    made, orders = learner("sgd"), []
    for number in range(2):
        made.epoch(number, [])
        orders.append(made.order.clone())
    assert not torch.equal(*orders)


def test_pieces_of_a_first_batch_count_by_their_rows(monkeypatch: pytest.MonkeyPatch):
    made = Learner(PlainBlobs(), spec("sgd", settings={"lr": 1.0}))
    made.prepare()
    rows = torch.arange(20)
    monkeypatch.setattr(torch, "randint", lambda *_, **__: rows)  # in pieces of 16 and 4
    made.loss(made.order[rows])[0].backward()
    moved = [p.detach() - cast("Tensor", p.grad) for p in made.model.parameters()]
    made.first_step(20)
    for p, value in zip(made.model.parameters(), moved, strict=True):
        torch.testing.assert_close(p.detach(), value)


def test_ranks_share_a_first_batch(monkeypatch: pytest.MonkeyPatch):
    made = Learner(PlainBlobs(), spec("sgd"))
    made.prepare()
    made.world = 2
    seen: list[int] = []
    loss = made.loss
    monkeypatch.setattr(made, "loss", lambda rows: seen.append(len(rows)) or loss(rows))
    made.first_step(40)
    assert seen == [8, 8, 4]  # of 40 rows in pieces of 16, half


def test_a_shorter_last_batch_of_an_evaluation_counts_by_its_rows():
    class Odd(PlainBlobs):
        evaluation_rows = 16

        def data(self) -> Any:
            return {name: (x[:37], y[:37]) for name, (x, y) in super().data().items()}

    made = Learner(Odd(), spec("sgd"))
    x, y = made.data["test"]
    found = made.evaluation.metrics(made.optimizer)
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(made.model.eval()(x), y))
    assert found["test_loss"] == pytest.approx(loss, rel=1e-6)


def test_training_rows_that_are_evaluated_are_of_all_classes():
    class Sorted(PlainBlobs):
        def data(self) -> Any:
            return {name: (x[y.argsort()], y.sort().values) for name, (x, y) in super().data().items()}

        def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
            return {"ones": y.double().mean()}

    made = Learner(Sorted(), spec("sgd"))
    assert 0.2 < made.evaluation.metrics(made.optimizer)["train_ones"] < 0.8


def test_statistics_at_w_are_of_augmented_rows_in_the_precision_of_training():
    class Far(Blobs):
        def augment(self, x: Tensor) -> Tensor:
            return x + 100

    made = Learner(Far(), spec(precision="bfloat16"))
    made.prepare()
    seen: list[tuple[torch.dtype, float]] = []
    first: Any = next(iter(made.model.children()))
    first.register_forward_hook(lambda _, inputs, output: seen.append((output.dtype, float(inputs[0].mean()))))
    with made.evaluation._shipped(made.optimizer):
        pass
    assert {dtype for dtype, _ in seen} == {torch.bfloat16}
    assert all(mean > 50 for _, mean in seen)


def test_each_shape_of_an_evaluation_has_a_graph_of_its_own(monkeypatch: pytest.MonkeyPatch):
    class Shapes(PlainBlobs):
        evaluation_rows = 64

        def data(self) -> Any:
            sets = super().data()
            x, y = sets["test"]
            return {**sets, "validation": (x[:20], y[:20])}

    captured: list[int] = []
    monkeypatch.setattr(_evaluation, "capture", lambda function, _: captured.append(1) or function)
    made = Learner(Shapes(), spec("sgd"))
    plain = made.evaluation.metrics(made.optimizer)
    made.evaluation.graphed = True
    assert made.evaluation.metrics(made.optimizer) == pytest.approx(plain)
    assert len(captured) == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_rows_that_ranks_cannot_share_are_nobodys(rank: int):
    class Rest(PlainBlobs):
        def data(self) -> Any:
            return {name: (x[:33], y[:33]) for name, (x, y) in super().data().items()}

    made = Learner(Rest(), spec("sgd"))
    made.prepare()
    made.rank, made.world = rank, 2
    steps: list[int] = []
    made.optimizer.register_step_pre_hook(lambda *_: steps.append(1))
    for start in (0, 16, 32):
        made.step(start)
    assert len(steps) == 2


def test_a_stream_is_evaluated_whole_by_every_rank():
    made = Learner(Reading(), spec("sgd"))
    alone = made.evaluation.metrics(made.optimizer)
    made.evaluation.rank, made.evaluation.world = 1, 2
    x, y = made.data["test"]
    made.model.eval()
    assert made.evaluation._on(x, y)["loss"] == alone["test_loss"]


def test_a_line_that_is_missing_before_a_checkpoint_is_told(tmp_path: Path):
    run = Run(tmp_path)
    run.append({"epoch": 1})
    run.save({"epoch": 2})
    with pytest.raises(CorruptError, match=r"has 1 epochs, and checkpoint.pt is of epoch 2"):
        run.cut()
