"""`adamplus …`: every command is one call into the packages beside this file."""

import sys
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

try:
    import typer

    from .lab import bench
    from .lab._compare import comparison
    from .lab.commands.data import data_app
    from .lab.commands.errors import said_plainly
    from .lab.commands.reproduce import reproduce
    from .lab.commands.theory import theory_app
    from .lab.optimizers import CONTENDERS

    if find_spec("matplotlib") is None:  # which is imported when something is drawn, after minutes of measuring
        raise ModuleNotFoundError(name="matplotlib")
except ModuleNotFoundError as _missing:
    raise SystemExit(
        f"adamplus: the commands need {_missing.name}, which is not installed: pip install 'adamplus[lab]' "
        "(in a clone: pip install -e '.[lab]')"
    ) from None

app: typer.Typer = typer.Typer(
    help="Adam⁺, measured and compared.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
bench_app: typer.Typer = typer.Typer(
    help="Step time and memory beside other optimizers and a copy's speed.", no_args_is_help=True
)
app.add_typer(bench_app, name="bench")
app.add_typer(data_app, name="data")
app.command()(reproduce)
app.add_typer(theory_app, name="theory")

Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; CUDA, where there is one.", show_default=False)]
Json = Annotated[Path | None, typer.Option("--json", help="Write the numbers there; `bench show` reads them.")]


@app.command()
def compare(
    task: Annotated[list[str] | None, typer.Argument(help="Names, or files of your own; the embedded tasks.")] = None,
    optimizers: Annotated[
        str,
        typer.Option(
            help=f"Of {', '.join(CONTENDERS)}, or files of your own, with commas; "
            "`name:key=value;key=value` fixes settings."
        ),
    ] = ",".join(comparison.PAPER),
    seeds: Annotated[int, typer.Option(help="Final runs of each optimizer on each task.")] = 3,
    tune: Annotated[int, typer.Option(help="Trials of each optimizer on each task; 0: the middle of each range.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Of each run; the task's own.", show_default=False)] = None,
    out: Annotated[Path, typer.Option(help="The folder of runs and report.")] = Path("runs"),
    engine: Annotated[str, typer.Option(help="local (processes) or ray (a cluster).")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time; as many as cores, one on CUDA.", show_default=False)
    ] = None,
    device: Device = None,
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16; the latter on CUDA.", show_default=False)
    ] = None,
    search: Annotated[str, typer.Option(help="random or grid, in the logarithm.")] = "random",
    first_batch: Annotated[int, typer.Option(help="T₀: rows of a first step of its own; 0 for none.")] = 0,
    probe: Annotated[bool, typer.Option("--probe", help="Measure errors of z and g after each epoch (Adam⁺).")] = False,
) -> None:
    """Train tasks with several optimizers and seeds: a table, and a page to look at."""
    with said_plainly():
        outcome = comparison.compare(
            task or list(comparison.EMBEDDED),
            comparison.split(optimizers),
            seeds=seeds,
            tune=tune,
            epochs=epochs,
            out=out,
            engine=engine,
            workers=workers,
            device=device,
            precision=precision,
            search=search,
            first_batch=first_batch,
            probe=probe,
        )
    if outcome.failures:
        raise typer.Exit(1)


@app.command()
def report(runs: Annotated[Path, typer.Argument(help="What `compare --out` wrote.")] = Path("runs")) -> None:
    """Page, figures and tables of stored runs."""
    with said_plainly():
        comparison.tell(runs)


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
    with said_plainly(kept=False):
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
    with said_plainly(kept=False):
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
    with said_plainly(kept=False):
        bench.show(bench.load(report), as_markdown=markdown, figure=figure)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ⁺ shows a question mark
    app(prog_name="adamplus")


if __name__ == "__main__":
    main()
