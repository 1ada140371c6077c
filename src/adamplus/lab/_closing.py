"""What people see at the end: the table, where the page is, and what to try next."""

from pathlib import Path

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
        table = Table(title=Text(task.title))
        for heading in HEADINGS:
            name = Text(heading.replace("metric", task.metric))
            table.add_column(name, justify="left" if heading in ("optimizer", "settings") else "right")
        for row in rows(results, task):
            table.add_row(*(Text(cell) for cell in cells(row)))
        out.print(table)
    page = report(root)
    say(out, f"Report: {page}")
    return page
