"""Runs that several processes train together: those that torchrun started, of which the first leads."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from .._spec import Spec
from .._store import CorruptError, Run, Store
from ..training import train
from . import Execute
from ._attempt import Ended, set_aside


def started() -> bool:
    """Whether torchrun started this process, and others."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def follows() -> bool:
    """Whether another process leads: this one only trains."""
    return started() and os.environ["RANK"] != "0"


@contextmanager
def opened(root: Path, workers: int | None = None) -> Iterator[Execute]:
    """Lead: one run at a time, whatever `workers` says, for every process is part of each."""
    _join()

    def execute(specs: Sequence[Spec], done: Callable[[Ended], None]) -> None:
        for spec in specs:
            run, notes = Store(root).run(spec), []
            try:
                run.checkpoint()  # before others wait for this process
            except CorruptError as error:
                notes.append(set_aside(Store(root), run, error))
            _say((spec, run.folder.resolve()))
            _train(spec, run)
            done(Ended(spec, notes=notes))

    try:
        yield execute
    finally:
        _say(None)
        dist.destroy_process_group()


def serve() -> None:
    """Follow: train what the leader says, until it has nothing more to say."""
    _join()
    while (said := _say(None)) is not None:
        spec, folder = said
        _train(spec, Run(folder))
    dist.destroy_process_group()


def _join() -> None:
    on_cuda = torch.cuda.is_available()
    if on_cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if on_cuda else "gloo")


def _say(what: tuple[Spec, Path] | None) -> tuple[Spec, Path] | None:
    """What the leader says, in every process."""
    box = [what]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def _train(spec: Spec, run: Run) -> None:
    """This process's part of a run: on its own device."""
    if spec.device == "cpu":
        torch.set_num_threads(1)
        train(spec, run)
    else:
        train(replace(spec, device=f"cuda:{os.environ['LOCAL_RANK']}"), run)
