"""`adamplus bench`: time and memory of a step."""

from pathlib import Path
from typing import Annotated

import typer

from .. import bench
from .device import Device
from .errors import reported_errors

bench_app: typer.Typer = typer.Typer(
    help="Step time and memory beside other optimizers and a copy's speed.", no_args_is_help=True
)
Json = Annotated[Path | None, typer.Option("--json", help="Write the numbers there; `bench show` reads them.")]


@bench_app.command()
def step(
    model: Annotated[list[str] | None, typer.Option(help="A list of tensors; repeat for more.")] = None,
    optimizer: Annotated[list[str] | None, typer.Option(help="An optimizer; repeat for more.")] = None,
    rounds: Annotated[int, typer.Option(help="How many times each step is timed.")] = 30,
    device: Device = None,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    json: Json = None,
) -> None:
    """One step of every optimizer on real lists of tensors: time, memory, bandwidth, ratios."""
    with reported_errors(kept=False):
        bench.step(model or (), optimizer or (), device=device, dtype=dtype, rounds=rounds, json=json)


@bench_app.command()
def scale(
    max_parameters: Annotated[
        int | None, typer.Option(help="The longest list; 10 billion on CUDA, 100 million on a CPU, or what fits.")
    ] = None,
    max_tensors: Annotated[int, typer.Option(help="The most tensors that 10 million are cut into.")] = 10_000,
    rounds: Annotated[int, typer.Option(help="How many times each step is timed.")] = 10,
    device: Device = None,
    json: Json = None,
    figure: Annotated[Path, typer.Option(help="Draw there: png, svg or pdf.")] = Path("bench-scale.png"),
) -> None:
    """Time of a step against the number of parameters and of tensors, as a figure."""
    with reported_errors(kept=False):
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
    report: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="What --json wrote.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="As Markdown, for a README.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Draw a report of `bench scale` there, too.")] = None,
) -> None:
    """The table of a stored report."""
    with reported_errors(kept=False):
        bench.show(bench.load(report), as_markdown=markdown, figure=figure)
