"""`adamplus` itself: its version."""

import platform
from typing import Annotated

import typer

from adamplus import __version__

from .examples import examples

MAIN_EXAMPLES = examples(
    "adamplus compare digits --optimizers adam-plus,adam",
    "adamplus compare my_task.py --tune 8 --seeds 5",
    "adamplus bench step --model resnet18",
    see="docs/lab.md, and adamplus COMMAND --help.",
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    import torch

    typer.echo(f"adamplus {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    raise typer.Exit


def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, metavar="", help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Measure Adam⁺ and compare it with other optimizers."""
