"""Training of one run from its specification into its folder.

`train` loops over the epochs of a Learner (_run/learner.py), writes the metrics of each, and writes a checkpoint every
few seconds with `Run.save` (_store/store.py).
"""

import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .. import optimizers, tasks
from .._run import Learner, divergence
from .._store import CHECKPOINT, CorruptError, Events, Run, Spec, certificate
from ..device import release
from ..errors import InputError
from ..tasks import Task

CHECKPOINT_SHARE = 0.01
"""The share of a run's time that checkpoints may take: large models are saved less often."""
LONGEST_PAUSE = 300.0
"""The most seconds between two checkpoints, however long they take: more would be lost in a kill."""

STOP = threading.Event()
"""Set in a worker that is asked to stop: its run is saved after the epoch, and KeyboardInterrupt is raised."""


class DeviceLostError(Exception):
    """CUDA has failed and cannot be used by this process again; another process can continue from the checkpoint."""


def train(spec: Spec, run: Run, checkpoint_every: float = 5.0) -> None:
    """Train a run from its checkpoint, if it has one, and write its end.json.

    An error in the task or the optimizer ends the run as failed.

    Args:
        spec: what to train.
        run: the folder to write to.
        checkpoint_every: seconds between checkpoints, more if saving takes long; 0 saves after every epoch.

    Raises:
        OSError: if the disk cannot be read or written.
        CorruptError: if a file of the run is damaged.
        InputError: if the run cannot be trained as specified.
        DeviceLostError: if this process cannot use the device any more.
        KeyboardInterrupt: if `STOP` was set before the last epoch. The checkpoint is that of the latest epoch.
    """
    begun = time.perf_counter()
    try:
        end = _train(spec, run, checkpoint_every)
    except (OSError, CorruptError, InputError):
        raise
    except Exception as error:
        if _is_lost(spec.device):
            raise DeviceLostError(f"{type(error).__name__}: {error}") from error
        if dist.is_initialized():  # torchrun.py exchanges errors between the processes
            raise
        text = "".join(traceback.format_exception(error))
        run.fail(f"{type(error).__name__}: {error}", time.perf_counter() - begun, text)
        return
    if not dist.is_initialized() or dist.get_rank() == 0:
        run.finish(end)


def _train(spec: Spec, run: Run, checkpoint_every: float) -> dict[str, Any]:
    begun = time.perf_counter()
    if spec.device != "cpu":  # graphs and compiled code of earlier runs refer to each other, and hold device memory
        release(torch.device(spec.device))
    task, digest = tasks.find(spec.task)
    for name, now, then in (
        (spec.task, digest, spec.task_digest),
        (spec.optimizer, optimizers.find(spec.optimizer)[1], spec.optimizer_digest),
    ):
        if now != then:
            raise InputError(f"{name} has changed since the comparison began: start the comparison again")
    writes = not dist.is_initialized() or dist.get_rank() == 0
    try:
        learner = Learner(task, spec)
    except Exception:
        if writes:
            run.begin(_settings(spec, task, None))
        raise
    history: list[dict[str, float]] = []
    if writes:
        run.begin(_settings(spec, task, learner))
        run.cut()
    if dist.is_initialized():
        dist.barrier()
    if (checkpoint := run.checkpoint()) is not None:
        try:
            learner.load(checkpoint["learner"])
        except torch.OutOfMemoryError:  # the checkpoint is not at fault
            raise
        except Exception as error:  # a model and an optimizer may raise any type
            if _is_lost(spec.device):
                raise
            raise CorruptError(f"{CHECKPOINT} does not fit the model and optimizer: {error}") from error
        history = run.metrics()
    learner.prepare()
    spent = history[-1].get("wall_seconds", 0.0) if history else 0.0
    saved, pause, reason = time.perf_counter(), checkpoint_every, None
    with closing(Events(run.folder, len(history))) if writes else nullcontext() as events:
        for number in range(len(history), spec.epochs):
            line = learner.epoch(number, history)
            line["wall_seconds"] = spent + time.perf_counter() - begun
            history.append(line)
            if events is not None:
                run.append(line)
                events.add(line)
                unfinished = number + 1 < spec.epochs
                if unfinished and ((now := time.perf_counter()) - saved >= pause or STOP.is_set()):
                    run.save({"epoch": number + 1, "learner": learner.state()})
                    saved = time.perf_counter()
                    pause = _pause(checkpoint_every, saved - now)
            if (reason := divergence(line, task.metric)) is not None:
                break
            if STOP.is_set() and number + 1 < spec.epochs:
                raise KeyboardInterrupt
    tensors = _tensors(learner.optimizer.state_dict())
    return {
        "status": "finished" if reason is None else "diverged",
        "reason": reason,
        "seconds": learner.seconds,
        "steps_per_second": learner.steps / learner.seconds,
        "state_bytes": sum(t.nbytes for t in tensors),
        "peak_bytes": torch.cuda.max_memory_allocated(learner.device) if learner.device.type == "cuda" else None,
    }


def _pause(checkpoint_every: float, cost: float) -> float:
    """Seconds until the next checkpoint, after one that took `cost` seconds."""
    return min(max(checkpoint_every, cost / CHECKPOINT_SHARE), LONGEST_PAUSE) if checkpoint_every else 0.0


def _settings(spec: Spec, task: Task, learner: Learner | None) -> dict[str, Any]:
    """The content of settings.json; `learner` is None if building it failed."""
    return {
        "spec": spec.to_json(),
        "task": tasks.about(task, {} if learner is None else learner.data),
        "parameters": None if learner is None else sum(p.numel() for p in learner.model.parameters()),
        "optimizer": {} if learner is None else _optimizer_settings(learner.scheduled.initial_groups[0]),
        **certificate(torch.device(spec.device)),
    }


def _optimizer_settings(group: dict[str, Any]) -> dict[str, Any]:
    """The settings of an optimizer's first group, with defaults, as far as JSON can hold them."""
    types = (bool, int, float, str, tuple, type(None))
    return {name: value for name, value in group.items() if isinstance(value, types) and name != "training"}


def _is_lost(device: str) -> bool:
    """Whether every call fails from now on, as after an illegal access, but not after running out of memory."""
    if device == "cpu":
        return False
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def _tensors(content: Any) -> Iterator[Tensor]:
    """The tensors of an optimizer's state_dict, without those in param_groups."""
    if isinstance(content, Tensor):
        yield content
    elif isinstance(content, dict):
        for key, value in content.items():
            if key != "param_groups":
                yield from _tensors(value)
    elif isinstance(content, list):
        for value in content:
            yield from _tensors(value)
