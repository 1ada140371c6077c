"""Tables as Markdown, CSV, LaTeX, and text for a terminal."""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from .numbers import DASH

LATEX_SIGNS = {sign: f"\\{sign}" for sign in "&%$#_{}"}
LATEX_SIGNS |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
LATEX_SIGNS |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}  # else shown as other signs
LATEX_SIGNS |= {"×": r"$\times$", "∞": r"$\infty$", "–": "--", "−": "$-$"}


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]], left: Collection[str]) -> str:
    """A Markdown table; the columns named by `left` are text, the others are numbers and end on the right."""
    rule = [":--" if name in left else "--:" for name in head]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))


def escape_markdown(text: str) -> str:
    """A text on one line in which no sign is Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(text.split()))


def csv_table(head: Sequence[str], lines: Iterable[Iterable[Any]]) -> str:
    """A CSV file's text; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return text.getvalue()


def latex_table(title: str, head: Sequence[str], lines: Iterable[Sequence[str]], left: Collection[str]) -> str:
    """A tabular for LaTeX's booktabs, with the title as a comment; `left` as in `markdown_table`."""
    first, *body = (" & ".join(map(_escape_latex, line)) + r" \\" for line in (head, *lines))
    columns = "".join("l" if name in left else "r" for name in head)
    start = [f"% {' '.join(title.split())}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", first, r"\midrule"]
    return "\n".join([*start, *body, r"\bottomrule", r"\end{tabular}"])


def _escape_latex(text: str) -> str:
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in " ".join(text.split()))


def terminal_table(
    head: Sequence[str],
    groups: Sequence[Sequence[Sequence[str]]],
    width: int,
    left: Collection[str],
    dispensable: Sequence[str],
    heading: Callable[[str], str] = str,
    **look: Any,
) -> Table:
    """A table for a terminal: columns of dashes alone are left out, and so are some that a narrow window cannot show.

    Args:
        head: the columns' names.
        groups: lines; groups are separated by a rule.
        width: the window's, in characters.
        left: columns of text; numbers end on the right.
        dispensable: columns to leave out in a narrow window, in this order.
        heading: the text above a column of this name; it may have several lines.
        look: arguments of rich's `Table`.
    """
    lines = [line for group in groups for line in group]
    columns = {name: [line[i] for line in lines] for i, name in enumerate(head)}
    columns = {name: cells for name, cells in columns.items() if set(cells) != {DASH}}
    for name in dispensable:
        widths = (max(map(len, (*heading(key).split("\n"), *cells))) for key, cells in columns.items())
        if 1 + sum(3 + own for own in widths) > width:
            columns.pop(name, None)
    table = Table(**look)
    for name in columns:
        table.add_column(Text(heading(name)), justify="left" if name in left else "right")
    for group in groups:
        for line in group:
            table.add_row(*(Text(cell) for name, cell in zip(head, line, strict=True) if name in columns))
        table.add_section()
    return table
