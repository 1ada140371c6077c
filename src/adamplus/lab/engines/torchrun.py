"""The torchrun engine: all processes that torchrun started train each run together, and rank 0 leads."""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from .._run import prepare_process
from .._store import SETTINGS, CorruptError, Run, Spec, Store
from ..errors import InputError
from .attempt import EndedRun, concerns_store, describe, exit_without_device, record_failure, set_aside, traceback_text
from .engine import Execute
from .training import DeviceLostError, train


def processes() -> int:
    """The number of processes that torchrun started; 1 if it did not start this one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def started() -> bool:
    """Whether torchrun started this process and others."""
    return processes() > 1


def follows() -> bool:
    """Whether another process leads, and this one only trains."""
    return started() and os.environ["RANK"] != "0"


def check_started() -> None:
    """Raise InputError unless torchrun started this process and others."""
    if not started():
        raise InputError(
            "--engine torchrun needs several processes that torchrun started: run "
            "torchrun --nproc-per-node 2 -m adamplus.cli compare … without --engine"
        )


def command_prefix() -> list[str]:
    """The beginning of the command that starts the same processes again."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", processes()))
    machines = ["--nnodes", str(processes() // here)] if processes() > here else []
    return ["torchrun", *machines, "--nproc-per-node", str(here), "-m", "adamplus.cli"]


@contextmanager
def joined(device: str | None) -> Iterator[None]:
    """Join the process group of all processes, each of which has got the same arguments.

    If the leader raises InputError, it tells the others to end. If it raises anything else, they may be in the middle
    of a run, and torchrun ends them.
    """
    if device != "cpu" and torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl")  # messages use gloo, gradients nccl
    else:
        dist.init_process_group("gloo")
    try:
        yield
    except InputError:
        _leave_group()
        raise
    _leave_group()


@contextmanager
def start(root: Path, workers: int | None = None) -> Iterator[Execute]:
    """Lead the other processes through one run at a time; `workers` has no effect."""

    def execute(specs: Sequence[Spec], done: Callable[[EndedRun], None]) -> None:
        for spec in specs:
            run, notes = Store(root).run(spec), []
            try:
                if (run.folder / SETTINGS).exists():
                    run.cut()  # raises CorruptError now, before the others wait for this process
            except CorruptError as error:
                notes.append(set_aside(Store(root), run, error))
            _broadcast((spec, run.folder.resolve()))
            if (raised := _train(spec, run, root)) is None:
                done(EndedRun(spec, notes=notes))
            else:
                record_failure(run, *raised)
                done(EndedRun(spec, raised[0], notes))

    yield execute


def serve() -> None:
    """Follow the leader: train the runs that it broadcasts, until it broadcasts None."""
    while (message := _broadcast(None)) is not None:
        spec, folder = message
        _train(spec, Run(folder), folder)


def _leave_group() -> None:
    if not follows():
        _broadcast(None)
    gc.collect()  # DDP models refer to the group in cycles; collected at exit, they may make torch abort
    dist.destroy_process_group()


def _broadcast(message: tuple[Spec, Path] | None) -> tuple[Spec, Path] | None:
    """Return the leader's message in every process."""
    box = [message]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def _train(spec: Spec, run: Run, root: Path) -> tuple[str, str] | None:
    """Train this process's part of a run on its own device.

    Returns the reason and traceback of the first process in which the run failed, if one did.
    """
    raised = None
    try:
        if spec.device != "cpu":
            spec = replace(spec, device=f"cuda:{os.environ['LOCAL_RANK']}")
        prepare_process(spec.device)
        train(spec, run)
    except DeviceLostError as error:
        exit_without_device(error)  # then torchrun ends the others
    except (Exception, SystemExit) as error:
        if isinstance(error, OSError) and concerns_store(error, root):
            raise
        raised = (describe(error), traceback_text(error))
    failures: list[tuple[str, str] | None] = [None] * dist.get_world_size()
    dist.all_gather_object(failures, raised)
    return next((failure for failure in failures if failure is not None), None)
