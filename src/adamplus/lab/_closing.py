"""What people see at the end: the table, where the page is, and what to try next."""

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ._errors import InputError
from ._progress import console, say

NEXT = (
    "adamplus compare my_task.py: the same for a model of your own (docs/extending.md)",
    "--optimizers adam-plus,'adam-plus:beta=0.5',muon: other optimizers and settings; --seeds 10: narrower intervals",
    "adamplus bench step: what a step costs in time and memory",
)
DISPENSABLE = ("test loss", "good lr", "settings", "steps/s", "state, B/param")
"""Columns that a narrow window does without, the first first."""


def show(root: Path, console: Console) -> Path | None:
    """Write the report of a comparison that has ended, as far as what is installed allows; the page's path."""
    try:
        page = tell(root, console)
    except InputError as error:
        say(console, f"There is no report: {error}")
        return None
    say(console, "What next:")
    for step in NEXT:
        say(console, f"  {step}")
    return page


def tell(root: Path, out: Console | None = None) -> Path:
    """Write the page and the tables of a store, and print the table."""
    try:
        from .report import HEADINGS, cells, read, report, rows
    except ModuleNotFoundError as error:
        raise InputError(f"reports need {error.name}, which is not installed: pip install 'adamplus[lab]'") from None
    out = out or console()
    results = read(root)
    for task in results.tasks:
        headings = [heading.replace("metric", task.metric) for heading in HEADINGS]
        out.print(_table(task.title, headings, [cells(row) for row in rows(results, task)], out.width))
    page = report(root)
    say(out, f"Report: {page}")
    return page


def _table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> Table:
    """As many columns as there is room for; all of them are on the page."""
    columns = {heading: cells for heading, *cells in zip(headings, *lines, strict=True) if set(cells) != {"–"}}
    for name in DISPENSABLE:
        if 1 + sum(3 + max(map(len, (heading, *cells))) for heading, cells in columns.items()) > width:
            columns.pop(name, None)
    table = Table(
        title=Text(title, style="bold"), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False
    )
    for heading in columns:
        table.add_column(Text(heading), justify="left" if heading in ("optimizer", "settings") else "right")
    for line in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, line))
    return table
