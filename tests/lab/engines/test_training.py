"""Training of one run: checkpoints, resumption, and how a run ends."""

import dataclasses
import gc
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from blob_runs import TASK, spec, without_times
from blobs import Blobs
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from adamplus.lab._run import learner as _learner
from adamplus.lab._run.learner import Learner
from adamplus.lab._store.event_files import Events
from adamplus.lab._store.store import CorruptError, Run
from adamplus.lab.engines import training
from adamplus.lab.engines.training import train
from adamplus.lab.errors import InputError
from adamplus.lab.optimizers import CONTENDERS


class Killed(BaseException):
    """Stands for a kill: handlers of Exception do not catch it."""


def kill_at(monkeypatch: pytest.MonkeyPatch, epoch: int) -> None:
    original = Learner.epoch

    def epoch_or_death(self: Learner, number: int, history: list[dict[str, float]]) -> dict[str, float]:
        if number == epoch:
            raise Killed
        return original(self, number, history)

    monkeypatch.setattr(_learner.Learner, "epoch", epoch_or_death)


def killed_at(epoch: int, folder: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str = "adam-plus") -> Run:
    """A run that was killed before an epoch, with a checkpoint of the previous one."""
    run = Run(folder)
    with monkeypatch.context() as patch:
        kill_at(patch, epoch)
        with pytest.raises(Killed):
            train(spec(optimizer), run, checkpoint_every=0.0)
    return run


@pytest.mark.parametrize("optimizer", list(CONTENDERS))
def test_a_killed_run_continues_bit_for_bit(optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = Run(tmp_path / "whole")
    train(spec(optimizer), whole)
    killed = killed_at(3, tmp_path / "killed", monkeypatch, optimizer)
    checkpoint = killed.checkpoint()
    assert checkpoint is not None
    assert checkpoint["epoch"] == 3
    train(spec(optimizer), killed)
    assert without_times(killed.metrics()) == without_times(whole.metrics())
    walls = [line["wall_seconds"] for line in killed.metrics()]
    assert walls == sorted(walls)  # including the time before the kill
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
        file.write('{"epoch": 4, "st')  # cut off by the kill
    train(spec(), killed)
    assert without_times(killed.metrics()) == without_times(whole.metrics())


@pytest.mark.parametrize(("cost", "expected"), [(0.125, [5, 18, 31]), (0.03125, [*range(5, 40, 5)]), (9.0, [5, 305])])
def test_checkpoints_take_a_limited_share_of_the_time(
    cost: float, expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now, saved, original = [0.0], list[int](), Run.save

    def save(self: Run, content: dict[str, Any]) -> None:
        original(self, content)
        saved.append(content["epoch"])
        now[0] += cost  # 1 % of 12.5 s or of 3.125 s; 9 s would be 1 % of 900 s, which is too long

    def epoch(self: Learner, number: int, history: list[dict[str, float]]) -> dict[str, float]:
        now[0] += 1
        self.steps, self.seconds = self.steps + 1, self.seconds + 1
        return {"epoch": number + 1}

    monkeypatch.setattr(Run, "save", save)
    monkeypatch.setattr(Learner, "epoch", epoch)
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    train(spec(epochs=40 if cost < 1 else 310), Run(tmp_path / "run"), checkpoint_every=5.0)
    assert saved == expected


def test_a_run_that_has_ended_holds_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made: list[weakref.ref[Learner]] = []
    original = Learner.prepare
    monkeypatch.setattr(Learner, "prepare", lambda self: (made.append(weakref.ref(self)), original(self))[1])
    gc.collect()
    gc.disable()  # without the collector: a model of half the memory must leave room for the next
    try:
        train(spec(), Run(tmp_path / "run"))
        assert [one() for one in made] == [None]
    finally:
        gc.enable()


def test_a_checkpoint_that_does_not_fit_into_memory_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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


def test_settings_list_the_machine_that_continued_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = killed_at(3, tmp_path / "run", monkeypatch)
    assert "resumed" not in run.settings()
    here = training.certificate(torch.device("cpu"))
    there = here | {"hardware": "an abacus", "started": "tomorrow"}
    monkeypatch.setattr(training, "certificate", lambda device: there)
    train(spec(), run)
    assert run.settings()["hardware"] == here["hardware"]
    names = ("versions", "hardware", "git", "started")
    assert run.settings()["resumed"] == [{"epoch": 4, **{name: there[name] for name in names}}]


def test_a_run_that_diverges_ends_with_its_reason(tmp_path: Path):
    run = Run(tmp_path / "run")
    train(spec("sgd", settings={"lr": 1e30}), run)
    end = run.end()
    assert end is not None
    assert end["status"] == "diverged"
    assert "loss" in end["reason"]
    assert "epoch 1" in end["reason"]
    assert len(run.metrics()) == 1


DROPPING = '''
from blobs import Blobs


class Dropping(Blobs):
    """A task whose summary keeps neither the loss nor anything that shows it."""

    metric = "score"

    def summary(self, means):
        return {"score": 1.0}
'''


def test_a_summary_without_the_loss_does_not_hide_a_divergence(tmp_path: Path):
    task = tmp_path / "dropping.py"
    task.write_text(DROPPING)
    run = Run(tmp_path / "run")
    train(spec("sgd", task=str(task), settings={"lr": 1e30}), run)
    assert (run.end() or {})["status"] == "diverged"
    assert len(run.metrics()) == 1
    kept = Run(tmp_path / "kept")
    train(spec("sgd", task=str(task), epochs=1), kept)
    (line,) = kept.metrics()
    assert (kept.end() or {})["status"] == "finished"
    assert line["test_score"] == 1.0
    assert line["test_loss"] > 0


class Broken(Blobs):
    def augment(self, x: Tensor) -> Tensor:
        raise RuntimeError("no such images")


def test_an_error_of_the_task_is_stored_as_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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


def test_a_full_disk_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Run, "append", full)
    run = Run(tmp_path / "run")
    with pytest.raises(OSError, match="No space left"):
        train(spec(), run)
    assert run.end() is None


def test_pandas_and_tensorboard_read_the_metrics(tmp_path: Path):
    run = Run(tmp_path / "run")
    train(spec(), run)
    frame = pd.read_json(run.folder / "metrics.jsonl", lines=True)
    assert list(frame["epoch"]) == [1, 2, 3, 4]
    assert list(frame["test_loss"]) == pytest.approx([line["test_loss"] for line in run.metrics()], rel=1e-9)
    events = EventAccumulator(str(run.folder)).Reload()
    assert [event.step for event in events.Scalars("test_loss")] == [1, 2, 3, 4]
    assert [e.value for e in events.Scalars("test_loss")] == pytest.approx(list(frame["test_loss"]), rel=1e-6)


def test_settings_include_the_defaults_of_the_optimizer(tmp_path: Path):
    run = Run(tmp_path / "run")
    train(spec("adamw"), run)
    found = run.settings()["optimizer"]
    expected = {"lr": 0.01, "weight_decay": 0.01, "eps": 1e-8, "betas": [0.9, 0.999]}  # torch's, except lr
    assert {name: found[name] for name in expected} == expected
    assert "params" not in found


def test_settings_describe_task_model_and_provenance(tmp_path: Path):
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


@pytest.mark.parametrize("content", [b"", b"half a file", b"PK\x03\x04"])
def test_half_a_checkpoint_is_reported(content: bytes, tmp_path: Path):
    run = Run(tmp_path / "run")
    run.begin({"spec": spec().to_json()})
    (run.folder / "checkpoint.pt").write_bytes(content)
    with pytest.raises(CorruptError, match=r"checkpoint\.pt"):
        train(spec(), run)


@pytest.mark.parametrize("content", [{"x": 1}, [1], {"epoch": "a", "learner": {}}])
def test_a_file_that_is_no_checkpoint_is_reported(content: object, tmp_path: Path):
    run = Run(tmp_path / "run")
    run.begin({"spec": spec().to_json()})
    torch.save(content, run.folder / "checkpoint.pt")
    with pytest.raises(CorruptError, match="is not the checkpoint of a run"):
        train(spec(), run)


def test_a_checkpoint_of_another_model_is_reported(tmp_path: Path):
    run = Run(tmp_path / "run")
    run.begin({"spec": spec().to_json()})
    run.append({"epoch": 1})
    run.save({"epoch": 1, "learner": {"model": {}, "optimizer": {}, "steps": 1, "seconds": 1.0}})
    with pytest.raises(CorruptError, match="does not fit"):
        train(spec(), run)


def test_a_changed_file_is_not_trained_under_its_old_digest(tmp_path: Path):
    task = tmp_path / "blobs_again.py"
    task.write_text(Path(TASK).read_text())
    old = spec(task=str(task))
    task.write_text(Path(TASK).read_text() + "EDITED = True\n")
    with pytest.raises(InputError, match="has changed since the comparison began"):
        train(old, Run(tmp_path / "run"))
    with pytest.raises(InputError, match="adam-plus has changed"):
        train(dataclasses.replace(spec(), optimizer_digest="of another version"), Run(tmp_path / "run"))


def test_event_files_have_each_epoch_once_after_a_restart_without_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = Run(tmp_path / "run")
    with monkeypatch.context() as patch:
        kill_at(patch, 3)
        with pytest.raises(Killed):
            train(spec(), run, checkpoint_every=1e9)
    time.sleep(1.1)  # names of event files contain the second
    train(spec(), run)
    events = EventAccumulator(str(run.folder)).Reload()
    assert [event.step for event in events.Scalars("test_loss")] == [1, 2, 3, 4]
