"""One run: trains a model as a specification says, and keeps what happens in its folder."""

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
from .._store import CorruptError, Events, Run, Spec, certificate
from ..device import release
from ..errors import InputError
from ..tasks import Task

SAVING = 0.01
"""How much of its time a run is to spend on checkpoints: a large model has fewer of them."""
LONGEST = 300.0
"""Seconds between two, or little more, however long they take: what a kill may cost."""


class DeviceLostError(Exception):
    """CUDA has failed in a way that leaves nothing to this process; another one can go on from the checkpoint."""


def train(spec: Spec, run: Run, checkpoint_every: float = 5.0) -> None:
    """Train from the run's checkpoint, if it has one, to the end that `run.end()` tells of.

    An error of the task or of the optimizer ends the run as failed. What the disk refuses is raised, and so are a
    folder that cannot be read and a device that does not answer any more. There is a checkpoint every so many seconds,
    or less often where saving takes long; 0 for one after every epoch.
    """
    begun = time.perf_counter()
    try:
        end = _train(spec, run, checkpoint_every)
    except (OSError, CorruptError, InputError):
        raise
    except Exception as error:
        if _is_lost(spec.device):
            raise DeviceLostError(f"{type(error).__name__}: {error}") from error
        if dist.is_initialized():  # others wait for this process, and torchrun ends them if it ends
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
            raise InputError(f"{name} has changed since the comparison began: start it again with what it is now")
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
        except torch.OutOfMemoryError:  # which is no fault of the checkpoint
            raise
        except Exception as error:  # whatever the model and the optimizer make of it
            if _is_lost(spec.device):
                raise
            raise CorruptError(f"checkpoint.pt does not fit: {error}") from error
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
                if (now := time.perf_counter()) - saved >= pause and number + 1 < spec.epochs:
                    run.save({"epoch": number + 1, "learner": learner.state()})
                    saved = time.perf_counter()
                    pause = min(max(checkpoint_every, (saved - now) / SAVING), LONGEST) if checkpoint_every else 0.0
            if (reason := divergence(line)) is not None:
                break
    tensors = _tensors(learner.optimizer.state_dict())
    return {
        "status": "finished" if reason is None else "diverged",
        "reason": reason,
        "seconds": learner.seconds,
        "steps_per_second": learner.steps / learner.seconds,
        "state_bytes": sum(t.nbytes for t in tensors),
        "peak_bytes": torch.cuda.max_memory_allocated(learner.device) if learner.device.type == "cuda" else None,
    }


def _settings(spec: Spec, task: Task, learner: Learner | None) -> dict[str, Any]:
    """What is known before the first step; without a learner, where there could not be one."""
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
    """Whether the device refuses everything from now on, as it does after an illegal access; not when memory is out."""
    if device == "cpu":
        return False
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def _tensors(content: Any) -> Iterator[Tensor]:
    """Those of an optimizer's state_dict that belong to parameters."""
    if isinstance(content, Tensor):
        yield content
    elif isinstance(content, dict):
        for key, value in content.items():
            if key != "param_groups":
                yield from _tensors(value)
    elif isinstance(content, list):
        for value in content:
            yield from _tensors(value)
