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
    tasks: Annotated[list[str] | None, typer.Argument(help="Names, or files of your own; the embedded tasks.")] = None,
    optimizers: Annotated[
        str,
        typer.Option(
            help=f"Of {', '.join(CONTENDERS)}, or files of your own, with commas; "
            "`name:key=value;key=value` fixes settings."
        ),
    ] = ",".join(NAMES),
    seeds: Annotated[int, typer.Option(help="Final runs of each optimizer on each task.")] = Request.seeds,
    tune: Annotated[
        int, typer.Option(help="Trials of each optimizer on each task; 0: the middle of each range.")
    ] = Request.tune,
    epochs: Annotated[int | None, typer.Option(help="Of each run; the task's own.", show_default=False)] = None,
    out: Annotated[Path, typer.Option(help="The folder of runs and report.")] = Request.out,
    engine: Annotated[str, typer.Option(help="local (processes) or ray (a cluster).")] = Request.engine,
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time; as many as cores, one on CUDA.", show_default=False)
    ] = None,
    device: Device = None,
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16; the latter on CUDA.", show_default=False)
    ] = None,
    search: Annotated[str, typer.Option(help="random or grid, in the logarithm.")] = Request.search,
    first_batch: Annotated[int, typer.Option(help="T₀: rows of a first step of its own; 0 for none.")] = 0,
    probe: Annotated[bool, typer.Option("--probe", help="Measure errors of z and g after each epoch (Adam⁺).")] = False,
) -> None:
    """Train tasks with several optimizers and seeds: a table, and a page to look at."""
    given: dict[str, Any] = locals() | {"tasks": tasks or list(EMBEDDED), "optimizers": split_list(optimizers)}
    with reported_errors():
        outcome = run(**given)
    if outcome.failures:
        raise typer.Exit(1)
