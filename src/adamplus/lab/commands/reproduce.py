"""`adamplus reproduce`: the paper's experiments, its figures and its claims."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .._compare import split_list
from ..reproduce import CHOICES, NAMES
from ..reproduce import ReproduceRequest as Request
from ..reproduce import reproduce as run
from .errors import reported_errors


def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(help=f"{', '.join(CHOICES)}; none, for figures and claims of stored runs.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The folder of all data; $ADAMPLUS_DATA or ~/.cache/adamplus.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of runs, figures and claims.md.")] = Request.out,
    protocol: Annotated[
        str, typer.Option(help="paper (its settings) or tuned (the same search for all).")
    ] = Request.protocol,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the epochs, schedules of the same shape.")] = False,
    epochs: Annotated[int | None, typer.Option(help="Of every run, instead.", show_default=False)] = None,
    seeds: Annotated[int, typer.Option(help="Final runs of each optimizer.")] = Request.seeds,
    tune: Annotated[int, typer.Option(help="Trials of each optimizer, in the tuned protocol.")] = Request.tune,
    optimizers: Annotated[str, typer.Option(help="Of the paper's six, also as name:key=value.")] = ",".join(NAMES),
    grid: Annotated[bool, typer.Option("--grid", help="All settings that the paper chose from.")] = False,
    weight_decay: Annotated[float, typer.Option(help="Of all; the paper says nothing of it.")] = Request.weight_decay,
    engine: Annotated[str, typer.Option(help="local (processes) or ray (a cluster).")] = Request.engine,
    workers: Annotated[int | None, typer.Option(help="Runs at a time.", show_default=False)] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1.", show_default=False)] = None,
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16.", show_default=False)] = None,
) -> None:
    """The paper's experiments: runs, its figures, and a page that sets its claims beside what was measured."""
    given: dict[str, Any] = locals() | {"experiments": experiments or (), "optimizers": split_list(optimizers)}
    with reported_errors():
        made = run(**given)
    if made.failures:
        raise typer.Exit(1)
