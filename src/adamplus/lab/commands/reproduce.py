"""`adamplus reproduce`: the paper's experiments, its figures and its claims."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .._compare import split_list
from ..reproduce import CHOICES, NAMES, READINGS
from ..reproduce import ReproduceRequest as Request
from ..reproduce import reproduce as run
from .device import Device
from .errors import reported_errors
from .examples import examples

REPRODUCE_EXAMPLES = examples(
    "adamplus reproduce all --toy --data data",
    "adamplus reproduce cifar10 --quick --seeds 1 --data data",
    "adamplus reproduce an4 --optimizers adam-plus,adam --data data",
    "adamplus reproduce --out reproduction",
    see="docs/reproduce.md, with the times that each takes.",
)


def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT",
            help=f"Experiments: {', '.join(CHOICES)}.",
            show_default="none; only figures and claims of stored runs",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of all data.", show_default="$ADAMPLUS_DATA or ~/.cache/adamplus"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of runs, figures and claims.md.")] = Request.out,
    protocol: Annotated[
        str, typer.Option(help="paper (its settings) or tuned (the same search for every optimizer).")
    ] = Request.protocol,
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="A tenth of the epochs, with schedules of the same shape.")
    ] = False,
    toy: Annotated[
        bool,
        typer.Option(
            "--toy",
            metavar="",
            help="Small models, a few rows, two epochs and one seed: a check of data and installation in two minutes "
            "on a CPU. It makes no claims.",
        ),
    ] = False,
    epochs: Annotated[int | None, typer.Option(help="Epochs per run.", show_default="the task's")] = None,
    seeds: Annotated[int, typer.Option(help="Final runs of each optimizer.")] = Request.seeds,
    tune: Annotated[int, typer.Option(help="Trials of each optimizer, with --protocol tuned.")] = Request.tune,
    optimizers: Annotated[
        str,
        typer.Option(
            help=f"Some of the paper's six, separated by commas: {', '.join(NAMES)}. `name:key=value` fixes a setting."
        ),
    ] = ",".join(NAMES),
    grid: Annotated[
        bool, typer.Option("--grid", metavar="", help="Run all settings that the paper chose from.")
    ] = False,
    weight_decay: Annotated[
        float, typer.Option(help="Weight decay of every optimizer, with --protocol paper, which names none.")
    ] = Request.weight_decay,
    reading: Annotated[
        str, typer.Option(help=f"Other readings of the paper, combined with commas: {', '.join(READINGS)}.")
    ] = "",
    choose_after: Annotated[
        int | None,
        typer.Option(help="Epochs after which validation chooses from the paper's grid.", show_default="no choice"),
    ] = None,
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
) -> None:
    """Run the paper's experiments, draw its figures, and compare its claims with what was measured."""
    given: dict[str, Any] = locals() | {"experiments": experiments or (), "optimizers": split_list(optimizers)}
    given["reading"] = split_list(reading)
    with reported_errors():
        made = run(**given)
    if made.failures:
        raise typer.Exit(1)
