"""One run: lists of tensors measured one after another, under a progress bar, with a birth certificate."""

import gc
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from .._present import console, count
from .compare import Bench, compare, ticks
from .contestants import Contestant
from .copy import copy_bandwidth
from .report import InputError, Report, check_writable, flat_certificate, save
from .shapes import Shapes, parameters


def run(
    kind: str,
    lists: Sequence[tuple[str, Shapes]],
    contestants: Sequence[Contestant],
    device: torch.device,
    dtype: torch.dtype,
    rounds: int,
    chosen: Sequence[str],
    json: Path | None,
) -> Report:
    """Measure the contestants on named lists of tensors.

    Args:
        kind: of the report.
        lists: what to measure on.
        contestants: whom to measure.
        device: where.
        dtype: of parameters and gradients.
        rounds: how many times each step is timed.
        chosen: what the command line said beside device and rounds.
        json: the file to write, after each list, so that whoever is stopped keeps what was measured.
    """
    check_writable(json)
    if rounds < 3:
        raise InputError(f"{rounds} rounds have no median to speak of; use --rounds 3 or more")
    command = shlex.join(["adamplus", "bench", kind, *chosen, "--device", str(device), "--rounds", str(rounds)])
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # A bar that is drawn between steps, not by a thread beside them.
    with Progress(*columns, console=console(), transient=True, auto_refresh=False) as progress, _frozen():
        task = progress.add_task("a copy", total=len(lists) * ticks(contestants, rounds))
        bench = Bench(device, dtype, rounds, copy_bandwidth(device))
        report = Report(kind, flat_certificate(command, device), bench.copy_bandwidth / 1e9)
        for name, shapes in lists:
            progress.update(task, description=f"{name}, {count(parameters(shapes))}", refresh=True)
            tick = partial(_advance, progress, task)
            report.models.append(compare(name, shapes, contestants, bench, tick))
            if json is not None:
                save(report, json)
    return report


def _advance(progress: Progress, task: TaskID, ticks: int) -> None:
    progress.update(task, advance=ticks, refresh=True)


@contextmanager
def _frozen() -> Iterator[None]:
    """Leave what was imported out of garbage collections, which would take longer than most steps."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
