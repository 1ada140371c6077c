"""The commands `adamplus bench step`, `scale` and `show`: measure lists of tensors, print the table, write files."""

import gc
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from torch import nn

from .._present import ProgressLines, console, count
from ..device import choose, room
from .compare import Conditions, compare, ticks
from .contenders import CONTENDERS, by_optimizer
from .figure import BY_PARAMETERS, BY_TENSORS, check_drawable, draw
from .measure import copy_bandwidth
from .report import BenchReport, InputError, check_writable, flat_certificate, save
from .shapes import MODELS, ON_CPU, equal_tensors, gpt_blocks, parameters
from .table import markdown, notes, table

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
COUNTS = [10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8, 3 * 10**8, 10**9, 3 * 10**9, 10**10]
"""Parameters of the lists that grow in parameters."""
TENSORS = [10, 30, 100, 300, 1_000, 3_000, 10_000]
"""Tensors of the lists that grow in tensors."""
TOTAL = 10**7
"""Parameters of each list that grows in tensors."""
LARGEST = {"cuda": COUNTS[-1], "cpu": 10**8}
"""Parameters of the longest list by default."""


def step(
    models: Sequence[str] = (),
    optimizers: Sequence[str] = (),
    *,
    device: str | None = None,
    dtype: str = "float32",
    rounds: int = 30,
    json: Path | None = None,
) -> BenchReport:
    """Measure one step of every optimizer on real lists of tensors, and print the table.

    Args:
        models: names of `MODELS`. Default: all on CUDA, the smaller ones on a CPU.
        optimizers: keys of `CONTENDERS`, or names of optimizers for all their ways of executing a step. Default: all
            on CUDA, those whose steps are quick on a CPU.
        device: "cpu", "cuda" or "cuda:1". Default: CUDA if there is one.
        dtype: "float32" or "bfloat16", for parameters and gradients.
        rounds: how many times each step is timed.
        json: a file for the numbers.
    """
    where = choose(device)
    names = _known("model", models, MODELS) or (ON_CPU if where.type == "cpu" else tuple(MODELS))
    light = tuple(key for key, contender in CONTENDERS.items() if not contender.heavy)
    keys = _expanded(optimizers) or (light if where.type == "cpu" else tuple(CONTENDERS))
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}: choose from {', '.join(DTYPES)}")
    options = [word for name in models for word in ("--model", name)]
    options += [word for key in optimizers for word in ("--optimizer", key)]
    options += ["--dtype", dtype]
    lists = [(name, MODELS[name]()) for name in names]
    report = _measure("step", lists, keys, where, DTYPES[dtype], rounds, options, json)
    show(report)
    return report


def _known(what: str, given: Sequence[str], there: Iterable[str]) -> list[str]:
    """The given names, each once; InputError if there is one that does not exist."""
    for name in given:
        if name not in there:
            raise InputError(f"unknown {what} {name!r}: choose from {', '.join(there)}")
    return list(dict.fromkeys(given))


def _expanded(optimizers: Sequence[str]) -> list[str]:
    """The keys of `CONTENDERS` for these keys and names of optimizers."""
    ways = by_optimizer()
    known = _known("optimizer", optimizers, [*CONTENDERS, *(name for name in ways if name not in CONTENDERS)])
    return list(dict.fromkeys(key for name in known for key in ([name] if name in CONTENDERS else ways[name])))


def scale(
    *,
    max_parameters: int | None = None,
    max_tensors: int = TENSORS[-1],
    device: str | None = None,
    rounds: int = 10,
    json: Path | None = None,
    figure: Path | None = None,
) -> BenchReport:
    """Measure Adam⁺, Adam and momentum SGD on growing lists of tensors, and print the table.

    Args:
        max_parameters: size of the longest list. Default: 10 billion on CUDA and 100 million on a CPU, or what fits.
        max_tensors: the most tensors, of equal size, that 10 million parameters are cut into.
        device: "cpu", "cuda" or "cuda:1". Default: CUDA if there is one.
        rounds: how many times each step is timed.
        json: a file for the numbers.
        figure: a file for the figure; its ending sets the format.
    """
    where = choose(device)
    most = LARGEST[where.type] if max_parameters is None else max_parameters
    if most < COUNTS[0] or max_tensors < TENSORS[0]:
        raise InputError(
            f"--max-parameters must be at least {COUNTS[0]:,} and --max-tensors at least {TENSORS[0]}, "
            f"got {most:,} and {max_tensors:,}"
        )
    check_writable(figure)
    check_drawable(figure)
    # Room for parameters, gradients and one buffer of Adam⁺; on CUDA, optimizers that need more are left out of the
    # largest lists.
    fitting = min(most, room(where) // (4 * (3 if where.type == "cuda" else 5)))
    lists = [(BY_PARAMETERS, gpt_blocks(size)) for size in COUNTS if size <= fitting]
    total = min(TOTAL, most)
    lists += [(BY_TENSORS, equal_tensors(total, tensors)) for tensors in TENSORS if tensors <= max_tensors]
    keys = ("adam-plus-fused" if where.type == "cuda" else "adam-plus-foreach", "adam-fused", "msgd-fused")
    options = ["--max-parameters", str(most), "--max-tensors", str(max_tensors)]
    report = _measure("scale", lists, keys, where, torch.float32, rounds, options, json)
    show(report, figure=figure)
    return report


def show(report: BenchReport, *, as_markdown: bool = False, figure: Path | None = None) -> None:
    """Print the table of a report with its notes, and draw its figure if a file is given."""
    if figure is not None:
        draw(report, figure)
    if as_markdown:
        print(markdown(report), end="")
        return
    out = console()
    out.print(table(report, out.width))
    for note in notes(report):
        out.print(note, highlight=False, markup=False)
    if figure is not None:
        out.print(f"Drawn: {figure}", highlight=False, markup=False)


def _measure(
    kind: str,
    models: Sequence[tuple[str, nn.Module]],
    keys: Sequence[str],
    device: torch.device,
    dtype: torch.dtype,
    rounds: int,
    options: Sequence[str],
    json: Path | None,
) -> BenchReport:
    """Measure contenders on named models, one after another, under a progress bar.

    Args:
        kind: the report's kind.
        models: names, and models on the meta device.
        keys: keys of `CONTENDERS`.
        device: where parameters and state are.
        dtype: the type of parameters and gradients.
        rounds: how many times each step is timed.
        options: the command line's, without device and rounds.
        json: a file for the numbers; it is written after each model, so that a run that is stopped keeps the others.
    """
    check_writable(json)
    if rounds < 3:
        raise InputError(f"--rounds must be at least 3, got {rounds}: fewer have no meaningful median")
    contenders = [CONTENDERS[key] for key in keys]
    command = shlex.join(["adamplus", "bench", kind, *options, "--device", str(device), "--rounds", str(rounds)])
    lines = ProgressLines()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Without auto_refresh, the bar is drawn between steps and not by a thread beside them.
    with Progress(*columns, console=console(), transient=True, auto_refresh=False) as progress, _frozen():
        task = progress.add_task("a copy", total=len(models) * ticks(contenders, rounds))
        conditions = Conditions(device, dtype, rounds, copy_bandwidth(device))
        report = BenchReport(kind, flat_certificate(command, device), conditions.copy_bandwidth / 1e9)
        for name, model in models:
            progress.update(task, description=f"{name}, {count(parameters(model))}", refresh=True)
            tick = partial(_advance, progress, task, lines, name)
            report.models.append(compare(name, model, contenders, conditions, tick))
            if json is not None:
                save(report, json)
    return report


def _advance(progress: Progress, task: TaskID, lines: ProgressLines, name: str, ticks: int) -> None:
    progress.update(task, advance=ticks, refresh=True)
    lines.say(f"{name}: {100 * progress.tasks[task].completed / (progress.tasks[task].total or 1):.0f} % measured")


@contextmanager
def _frozen() -> Iterator[None]:
    """Exclude imported objects from garbage collections, which would take longer than most steps."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
