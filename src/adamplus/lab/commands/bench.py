"""`adamplus bench`: time and memory of an optimizer step."""

from pathlib import Path
from typing import Annotated

import typer

from .. import bench
from .device import Device
from .errors import reported_errors

bench_app: typer.Typer = typer.Typer(
    help="Measure time and memory of a step, beside other optimizers and the speed of a copy.", no_args_is_help=True
)
Json = Annotated[Path | None, typer.Option("--json", help="File for the numbers, which `bench show` reads.")]


@bench_app.command()
def step(
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a list of tensors; repeat for several.", show_default="all; on a CPU the smaller ones"
        ),
    ] = None,
    optimizer: Annotated[
        list[str] | None,
        typer.Option(help="Name of an optimizer; repeat for several.", show_default="all; on a CPU the quick ones"),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often each step is timed.")] = 30,
    device: Device = None,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    json: Json = None,
) -> None:
    """Measure one step of every optimizer on real lists of tensors: time, memory, bandwidth, ratios."""
    with reported_errors(resumes=False):
        bench.step(model or (), optimizer or (), device=device, dtype=dtype, rounds=rounds, json=json)


@bench_app.command()
def scale(
    max_parameters: Annotated[
        int | None,
        typer.Option(
            help="Parameters of the longest list.",
            show_default="10 billion on CUDA, 100 million on a CPU, or what fits",
        ),
    ] = None,
    max_tensors: Annotated[int, typer.Option(help="Largest number of tensors for 10 million parameters.")] = 10_000,
    rounds: Annotated[int, typer.Option(help="How often each step is timed.")] = 10,
    device: Device = None,
    json: Json = None,
    figure: Annotated[Path, typer.Option(help="File of the figure: png, svg or pdf.")] = Path("bench-scale.png"),
) -> None:
    """Draw the time of a step against the number of parameters and of tensors."""
    with reported_errors(resumes=False):
        bench.scale(
            max_parameters=max_parameters,
            max_tensors=max_tensors,
            device=device,
            rounds=rounds,
            json=json,
            figure=figure,
        )


@bench_app.command()
def show(
    report: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="File that --json wrote.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    figure: Annotated[Path | None, typer.Option(help="File of the figure, for a report of `bench scale`.")] = None,
) -> None:
    """Print the table of a stored report."""
    with reported_errors(resumes=False):
        bench.show(bench.load(report), as_markdown=markdown, figure=figure)
