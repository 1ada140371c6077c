"""`adamplus report`: the page and figures of stored runs."""

from pathlib import Path
from typing import Annotated

import typer

from ..report import print_report
from .errors import reported_errors


def report(runs: Annotated[Path, typer.Argument(help="Folder that `compare --out` wrote.")] = Path("runs")) -> None:
    """Write the page, figures and tables of stored runs."""
    with reported_errors():
        print_report(runs)
