"""`adamplus compare`: train tasks with several optimizers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .._compare import Request, split_list
from .._compare import compare as run
from ..optimizers import CONTENDERS
from ..reproduce import NAMES
from ..tasks import EMBEDDED
from .device import Device
from .errors import reported_errors


def compare(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(help="Names, or files that end in .py.", show_default="the embedded tasks"),
    ] = None,
    optimizers: Annotated[
        str,
        typer.Option(
            help=f"Comma-separated list of {', '.join(CONTENDERS)}, or files that end in .py. "
            "`name:key=value;key=low..high` fixes a setting, and searches another in that range."
        ),
    ] = ",".join(NAMES),
    seeds: Annotated[int, typer.Option(help="Final runs of each optimizer on each task.")] = Request.seeds,
    tune: Annotated[
        int,
        typer.Option(help="Settings to try per optimizer, judged on validation data. 0: the middle of each range."),
    ] = Request.tune,
    epochs: Annotated[int | None, typer.Option(help="Epochs per run.", show_default="the task's")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and the report.")] = Request.out,
    engine: Annotated[str, typer.Option(help="local (processes of this machine) or ray (a cluster).")] = Request.engine,
    workers: Annotated[
        int | None,
        typer.Option(help="Runs at a time.", show_default="one per core on the CPU, one on CUDA"),
    ] = None,
    device: Device = None,
    precision: Annotated[
        str | None,
        typer.Option(help="float32 or bfloat16.", show_default="bfloat16 on CUDA, else float32"),
    ] = None,
    search: Annotated[str, typer.Option(help="Trials of --tune in each range: random or grid.")] = Request.search,
    first_batch: Annotated[int, typer.Option(help="Rows of an extra first step, the paper's T₀. 0: none.")] = 0,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
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
