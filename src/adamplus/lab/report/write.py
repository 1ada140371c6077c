"""The report of a comparison: files in its folder, and a summary on the terminal."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._present import as_typed, console, say, terminal_table
from .._store import replace_file
from ..errors import InputError
from .answers import answer, untuned
from .figures import figures
from .formats import LEFT, to_csv, to_latex, to_markdown
from .page import page
from .results import Results, read
from .rows import ContenderRow, grid, rows

TUNE, SEEDS = 5, 10
"""Trials and seeds that are recommended to those who had fewer."""
DISPENSABLE = ("test loss", "good lr", "settings", "steps/s", "state, B/param")
"""Columns that a narrow window does without, in the order in which they are left out."""


def show(root: Path, console: Console, *, alone: bool = True) -> None:
    """Write and print the report of a comparison that has ended, as far as the installed libraries allow.

    Args:
        root: the comparison's folder.
        console: where to print.
        alone: also print what to try next; False for one comparison of several.
    """
    try:
        print_report(root, console)
    except InputError as error:
        if isinstance(error.__cause__, OSError):  # a full disk must end the command with an error
            raise error.__cause__ from None
        say(console, f"The report is incomplete: {error}")
        return
    if alone:
        say(console, "What next:")
        for command, purpose in next_steps(read(root).comparison):
            say(console, f"  {purpose}:\n    {as_typed(command)}")
        say(console, "  A model of your own: write it as a task (docs/extending.md), and compare on its file.")


def next_steps(comparison: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Commands that are worth running after a comparison, each with its purpose."""
    steps, command = [], str(comparison.get("command", ""))
    if command.startswith("adamplus compare ") and comparison.get("tune") == 0:
        steps.append(
            (re.sub(r" --tune 0\b", f" --tune {TUNE}", command), "A search of the settings that nothing chose")
        )
    if command.startswith("adamplus compare ") and len(comparison.get("seeds", [])) < SEEDS:
        more = re.sub(r" --seeds \d+", f" --seeds {SEEDS}", command)
        steps.append((more, "Narrower intervals; the runs that are there are kept"))
    steps.append(("adamplus bench step", "What a step costs in time and memory"))
    return steps


def print_report(root: Path, out: Console | None = None) -> Path:
    """Write the page and the tables of a folder of runs, print the tables, and return the page's path."""
    out = out or console()
    results = read(root)
    tables = [rows(results, task) for task in results.tasks]
    for task, table in zip(results.tasks, tables, strict=True):
        out.print(_terminal_table(table, out.width))
        say(out, f"{answer(task, table)}\n")
    if warning := untuned(results.untuned):
        say(out, f"{warning}\n")
    if results.unreadable:
        first, reason = next(iter(results.unreadable.items()))
        say(out, f"Unreadable runs, which are left out: {len(results.unreadable)}. The first: {first}: {reason}")
    page = _write_all(root, results, tables)
    say(out, f"Report: {page} (open it in a browser)")
    return page


def _terminal_table(table: list[ContenderRow], width: int) -> Table:
    """One task's table, with the columns that the window has room for; the page has all of them."""
    task = table[0].task
    head, *lines = grid(table)
    return terminal_table(
        head,
        [lines],
        width,
        left=LEFT,
        dispensable=[name for name in DISPENSABLE if name != f"test {task.metric}"],
        title=Text(task.title, style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )


def report(root: Path) -> Path:
    """Write `report.html`, `table.csv`, `table.md`, `table.tex` and `figures/` from the runs in a folder.

    Returns:
        The page's path.
    """
    results = read(root)
    return _write_all(root, results, [rows(results, task) for task in results.tasks])


def _write_all(root: Path, results: Results, tables: list[list[ContenderRow]]) -> Path:
    """Write all files of a report and return the page's path; figures and page each need a library of their own."""
    table = [row for part in tables for row in part]
    lacking = []
    try:
        for name, make in (("csv", to_csv), ("md", to_markdown), ("tex", to_latex)):
            _write(root / f"table.{name}", make(table))
        for draw in (
            lambda: figures(results, tables, root / "figures"),
            lambda: _write(root / "report.html", page(results, tables)),
        ):
            try:
                draw()
            except InputError as error:
                lacking.append(str(error))
    except OSError as error:
        raise InputError(
            f"the report cannot be written to {root} ({error.strerror or error}): make room there, or copy the folder"
        ) from error
    if lacking:
        raise InputError(f"{'; '.join(lacking)}. Everything else of the report is in {root}")
    return root / "report.html"


def _write(path: Path, content: str) -> None:
    replace_file(path, content.encode(errors="replace"))  # a file name may be no Unicode
