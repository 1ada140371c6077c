"""`adamplus report`: the page and figures of stored runs."""

from pathlib import Path
from typing import Annotated

import typer

from ..report import print_report
from .errors import reported_errors
from .examples import examples

REPORT_EXAMPLES = examples("adamplus report runs/demo", see="docs/lab.md.")


def report(
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="Folder that `compare --out` wrote.")] = Path("runs"),
) -> None:
    """Write the page, figures and tables of stored runs."""
    with reported_errors():
        print_report(runs)
