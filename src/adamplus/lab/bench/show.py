"""What people see of a report: the table, where its numbers come from, and the figure."""

from pathlib import Path

from .._present import console
from .figure import draw
from .report import Report
from .table import markdown, notes, table


def show(report: Report, *, as_markdown: bool = False, figure: Path | None = None) -> None:
    """Print the table with its notes, and draw the figure if a file is given."""
    if figure is not None:
        draw(report, figure)
    if as_markdown:
        print(markdown(report), end="")
        return
    out = console()
    out.print(table(report, out.width))
    for note in notes(report):
        out.print(note, highlight=False, markup=False)
    if figure is not None:
        out.print(f"Drawn: {figure}", highlight=False, markup=False)
