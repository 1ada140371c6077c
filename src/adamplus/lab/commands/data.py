"""`adamplus data`: locate, verify and download data sets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from .. import data
from .._present import ProgressLines, as_typed, console
from ..data import ProgressCallback
from .errors import reported_errors
from .examples import examples

data_app: typer.Typer = typer.Typer(
    help="Locate, verify and download data sets.",
    epilog=examples(
        "adamplus data where",
        "adamplus data download cifar10 wikitext2 --data data",
        "adamplus data verify --data data",
        see="docs/data.md.",
    ),
    no_args_is_help=True,
)
NAMES = f"Data sets: {', '.join(data.SETS)}."
DOWNLOADS = f"Data sets: {', '.join(name for name, one in data.SETS.items() if one.ways)}."

Root = Annotated[
    Path | None,
    typer.Option("--data", help="Folder of all data.", show_default="$ADAMPLUS_DATA or ~/.cache/adamplus"),
]


@data_app.command()
def where(root: Root = None) -> None:
    """List the known data sets, and where each of them is."""
    with reported_errors():
        folder = data.data_root(root)
        found = data.where(folder)
    typer.echo(f"{folder}:")
    for one, place in found:
        if place is None:
            state = f"not there. {one.how_to_get(folder)}"
        else:
            state = f"{place.path} ({place.layout.title})"
            state += f", which lacks {', '.join(place.lacks)}" if place.lacks else ""
        typer.echo(f"  {one.name:<10} {state}")


@data_app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="SET", help=NAMES, show_default="all that are there")
    ] = None,
    root: Root = None,
) -> None:
    """Compare files with their known digests. The exit code is 1 if a file is missing or wrong."""
    with reported_errors():
        folder = data.data_root(root)
        rows = data.verify(folder, names or ())
    if not rows:
        typer.echo(f"{folder} has no data set")
        raise typer.Exit(1)
    for row in rows:
        typer.echo(f"{row.status:<14} {row.data_set:<10} {row.path}{'  ' + row.note if row.note else ''}")
    if wrong := dict.fromkeys(row.data_set for row in rows if row.status in ("missing", "wrong digest")):
        if named := [name for name in wrong if data.SETS[name].ways]:
            typer.echo(
                "To get the official files: " + as_typed(f"adamplus data download {' '.join(named)} --data {folder}")
            )
        raise typer.Exit(1)


@data_app.command()
def download(
    names: Annotated[list[str], typer.Argument(metavar="SET", help=DOWNLOADS, show_default=False)], root: Root = None
) -> None:
    """Download data sets from their official addresses. Interrupted downloads continue."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with reported_errors():
        folder, output = data.data_root(root), console()
        for name in names:
            with Progress(*columns, TimeRemainingColumn(), console=output, disable=not output.is_terminal) as progress:
                path = data.download(name, folder, _bar(progress))
            typer.echo(f"{name} is in {path}; {data.SETS[name].licence}")


def _bar(progress: Progress) -> ProgressCallback:
    """Callback that shows one progress bar for each file, or a line a minute if there is no terminal."""
    bars, lines = {}, ProgressLines()

    def show(name: str, size: int, total: int | None) -> None:
        lines.say(f"{name}: {size / 1e6:,.0f} MB" + (f" of {total / 1e6:,.0f}" if total else ""))
        if name not in bars:
            bars[name] = progress.add_task(name, total=total)
        progress.update(bars[name], completed=size, total=total)

    return show
