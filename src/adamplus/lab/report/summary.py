"""What people see at the end: the table, where the page is, and what to try next."""

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._present import console, say, terminal_table
from ..errors import InputError

NEXT = (
    "adamplus compare my_task.py: the same for a model of your own (docs/extending.md)",
    "--optimizers adam-plus,'adam-plus:beta=0.5',muon: other optimizers and settings; --seeds 10: narrower intervals",
    "adamplus bench step: what a step costs in time and memory",
)
DISPENSABLE = ("test loss", "good lr", "settings", "steps/s", "state, B/param")
"""Columns that a narrow window does without, the first first."""


def show(root: Path, console: Console, *, alone: bool = True) -> None:
    """Write the report of a comparison that has ended, as far as what is installed allows; `alone`, as all of it."""
    try:
        tell(root, console)
    except InputError as error:
        if isinstance(error.__cause__, OSError):  # a full disk is no success
            raise error.__cause__ from None
        say(console, f"The report is not whole: {error}")
        return
    if alone:
        say(console, "What next:")
        for step in NEXT:
            say(console, f"  {step}")


def tell(root: Path, out: Console | None = None) -> Path:
    """Write the page and the tables of a store, and print the table."""
    try:
        from . import HEADINGS, cells, read, report, rows
    except ModuleNotFoundError as error:
        raise InputError(f"reports need {error.name}, which is not installed: pip install 'adamplus[lab]'") from None
    out = out or console()
    results = read(root)
    for task in results.tasks:
        lines = [HEADINGS, *(cells(row) for row in rows(results, task))]
        out.print(_table(task.title, task.metric, lines, out.width))
    if results.unreadable:
        first, reason = next(iter(results.unreadable.items()))
        say(out, f"{len(results.unreadable)} of the runs cannot be read, and are left out: {first}: {reason}")
    page = report(root)
    say(out, f"Report: {page}")
    return page


def _table(title: str, metric: str, lines: Sequence[Sequence[str]], width: int) -> Table:
    """As many columns as say something and as there is room for; all of them are on the page."""
    head, *body = lines
    kept = [i for i, name in enumerate(head) if (name, metric) != ("test loss", "loss")]
    head, *body = ([line[i] for i in kept] for line in (head, *body))
    return terminal_table(
        head,
        [body],
        width,
        left=("optimizer", "settings"),
        dispensable=DISPENSABLE,
        heading=lambda name: name.replace("metric", metric),
        title=Text(title, style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
