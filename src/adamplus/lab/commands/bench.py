"""`adamplus bench`: time and memory of an optimizer step."""

from pathlib import Path
from typing import Annotated

import typer

from .. import bench
from .device import Device
from .errors import reported_errors
from .examples import examples

bench_app: typer.Typer = typer.Typer(
    help="Measure time and memory of a step, beside other optimizers and the speed of a copy.",
    epilog=examples("adamplus bench step", "adamplus bench scale", see="adamplus bench COMMAND --help."),
    no_args_is_help=True,
)
Json = Annotated[Path | None, typer.Option("--json", help="File for the numbers, which `bench show` reads.")]


@bench_app.command(
    epilog=examples(
        "adamplus bench step --model resnet18 --optimizer adam-plus --optimizer adam",
        "adamplus bench step --model gpt2-124m --device cuda --json step.json",
        see="results/step/README.md.",
    )
)
def step(
    model: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Tensors of a model: {', '.join(bench.MODELS)}. Repeat the option for several.",
            show_default=f"all; on a CPU {' and '.join(bench.ON_CPU)}",
        ),
    ] = None,
    optimizer: Annotated[
        list[str] | None,
        typer.Option(
            help=f"An optimizer in all ways of executing its step ({', '.join(bench.by_optimizer())}), or one "
            f"of them ({', '.join(bench.CONTENDERS)}). Repeat the option for several.",
            show_default="all; on a CPU without SpectralPlus",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often each step is timed.")] = 30,
    device: Device = None,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    json: Json = None,
) -> None:
    """Measure one step of every optimizer on real lists of tensors: time, memory, bandwidth, ratios."""
    with reported_errors(resumes=False):
        bench.step(model or (), optimizer or (), device=device, dtype=dtype, rounds=rounds, json=json)


@bench_app.command(epilog=examples("adamplus bench scale --max-parameters 10000000", see="results/step/README.md."))
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


@bench_app.command(epilog=examples("adamplus bench show step.json --markdown", see="results/step/README.md."))
def show(
    report: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="File that --json wrote.")],
    markdown: Annotated[bool, typer.Option("--markdown", metavar="", help="Print Markdown.")] = False,
    figure: Annotated[Path | None, typer.Option(help="File of the figure, for a report of `bench scale`.")] = None,
) -> None:
    """Print the table of a stored report."""
    with reported_errors(resumes=False):
        bench.show(bench.load(report), as_markdown=markdown, figure=figure)
