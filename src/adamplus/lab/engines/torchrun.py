"""Runs that several processes train together: those that torchrun started, of which the first leads."""

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
    """How many torchrun started; 1 where it did not start this one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def started() -> bool:
    """Whether torchrun started this process, and others."""
    return processes() > 1


def follows() -> bool:
    """Whether another process leads: this one only trains."""
    return started() and os.environ["RANK"] != "0"


def check_started() -> None:
    """Raise InputError where torchrun did not start this process."""
    if not started():
        raise InputError(
            "--engine torchrun: torchrun has not started this process, or no other beside it: give the command as "
            "torchrun --nproc-per-node 2 -m adamplus.cli compare …, which needs no --engine"
        )


def command_prefix() -> list[str]:
    """The command line's beginning, by which the same processes are started again."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", processes()))
    machines = ["--nnodes", str(processes() // here)] if processes() > here else []
    return ["torchrun", *machines, "--nproc-per-node", str(here), "-m", "adamplus.cli"]


@contextmanager
def joined(device: str | None) -> Iterator[None]:
    """Be one of the processes; what has been asked for is the same in all of them.

    Where the leader leaves by bad input, the others wait for its word, and end. Where it leaves by anything else, they
    may be in the middle of a run, and torchrun ends them.
    """
    if device != "cpu" and torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl")  # words go by the one, gradients by the other
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
    """Lead: one run at a time, whatever `workers` says, for every process is part of each."""

    def execute(specs: Sequence[Spec], done: Callable[[EndedRun], None]) -> None:
        for spec in specs:
            run, notes = Store(root).run(spec), []
            try:
                if (run.folder / SETTINGS).exists():
                    run.cut()  # before others wait for this process
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
    """Follow: train what the leader says, until it has nothing more to say."""
    while (message := _broadcast(None)) is not None:
        spec, folder = message
        _train(spec, Run(folder), folder)


def _leave_group() -> None:
    if not follows():
        _broadcast(None)
    gc.collect()  # models under DDP hold the group in cycles: left to the process's end, torch may abort it there
    dist.destroy_process_group()


def _broadcast(what: tuple[Spec, Path] | None) -> tuple[Spec, Path] | None:
    """What the leader says, in every process."""
    box = [what]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def _train(spec: Spec, run: Run, root: Path) -> tuple[str, str] | None:
    """This process's part of a run, on its own device; why the run has failed, and where, in whichever process."""
    raised = None
    try:
        if spec.device != "cpu":
            spec = replace(spec, device=f"cuda:{os.environ['LOCAL_RANK']}")
        prepare_process(spec.device)
        train(spec, run)
    except DeviceLostError as error:
        exit_without_device(error)  # and torchrun ends the others, which have nobody to wait for
    except (Exception, SystemExit) as error:
        if isinstance(error, OSError) and concerns_store(error, root):
            raise
        raised = (describe(error), traceback_text(error))
    failures: list[tuple[str, str] | None] = [None] * dist.get_world_size()
    dist.all_gather_object(failures, raised)
    return next((one for one in failures if one is not None), None)
