"""`adamplus compare`: train tasks with several optimizers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .._compare import Request, split_list
from .._compare import compare as run
from ..optimizers import CONTENDERS
from ..reproduce import NAMES
from ..tasks import EMBEDDED, TASKS
from .device import Device
from .errors import reported_errors
from .examples import examples

NAMED = [name for name in TASKS if not name.endswith(("-toy", "-decayed-adam"))]
"""The tasks that are not for `adamplus reproduce` alone."""
COMPARE_EXAMPLES = examples(
    "adamplus compare digits --optimizers adam-plus,adam,msgd",
    "adamplus compare digits --optimizers 'adam-plus:lr=0.3..10;beta=0.3,adamw'",
    "adamplus compare my_task.py --tune 8 --seeds 5 --out runs/mine",
    "adamplus compare digits --tune 0 --optimizers 'adam-plus:lr=2,adam:lr=0.003'",
    see="docs/lab.md; tasks and optimizers of your own: docs/extending.md.",
)


def compare(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASK",
            help=f"Tasks: {', '.join(NAMED)}, or files that end in .py.",
            show_default=", ".join(EMBEDDED),
        ),
    ] = None,
    optimizers: Annotated[
        str,
        typer.Option(
            help=f"Optimizers, separated by commas: {', '.join(CONTENDERS)}, or files that end in .py. "
            "`name:key=value;key=low..high` fixes a setting, and searches another in that range."
        ),
    ] = ",".join(NAMES),
    seeds: Annotated[int, typer.Option(help="Final runs of each optimizer on each task.")] = Request.seeds,
    tune: Annotated[
        int,
        typer.Option(
            help="Settings to try per optimizer on each task, judged on validation data. 0: no search; settings that "
            "are not given are in the middle of their ranges."
        ),
    ] = Request.tune,
    epochs: Annotated[int | None, typer.Option(help="Epochs per run.", show_default="the task's")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and the report.")] = Request.out,
    engine: Annotated[str, typer.Option(help="local: processes of this machine. ray: a cluster.")] = Request.engine,
    workers: Annotated[
        int | None,
        typer.Option(help="Runs at a time.", show_default="one per core on the CPU, one on CUDA"),
    ] = None,
    device: Device = None,
    precision: Annotated[
        str | None,
        typer.Option(help="float32 or bfloat16.", show_default="bfloat16 on CUDA, else float32"),
    ] = None,
    search: Annotated[
        str,
        typer.Option(
            help="Trials of --tune. random: an even grid with a shift that all optimizers share. grid: no shift."
        ),
    ] = Request.search,
    first_batch: Annotated[int, typer.Option(help="Rows of an extra first step, the paper's T₀. 0: none.")] = 0,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            metavar="",
            help="After each epoch, measure the errors of z and of the gradient (Adam⁺ family).",
        ),
    ] = False,
) -> None:
    """Train tasks with several optimizers and seeds, and write a table and a page."""
    given: dict[str, Any] = locals() | {"tasks": tasks or list(EMBEDDED), "optimizers": split_list(optimizers)}
    with reported_errors():
        outcome = run(**given)
    if outcome.failures:
        raise typer.Exit(1)
