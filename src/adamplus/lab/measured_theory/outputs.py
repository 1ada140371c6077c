"""Files of a folder of measurements: numbers as JSON, tables, figures, and one page with all of them."""

import base64
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from .._present import Markup, join, tag
from ..errors import InputError
from . import table1_report, tables, variance_report
from .figures import draw_rates
from .measurement import PROBLEMS
from .table1_figure import draw_table1
from .tables import grid, notes, problems

TITLES = {
    "table1": "Table 1 of the paper, measured",
    "rate": "Rates under the settings that are proved",
    "variance": "How exact z is",
}

PICTURES = """
figure { margin: 1rem 0; } figure img { max-width: 100%; background: #fff; }
@media (prefers-color-scheme: dark) {
  figure img { filter: invert(0.91) hue-rotate(180deg); } /* dark paper, and the same hues */
}
tbody th { max-width: none; white-space: nowrap; }
"""


def load_reports(folder: Path) -> list[dict[str, Any]]:
    """Load the reports in a folder. Raises an InputError if one cannot be shown."""
    return [_load(folder / f"{kind}.json") for kind in TITLES if (folder / f"{kind}.json").is_file()]


def _load(path: Path) -> dict[str, Any]:
    """Load a report and check that its tables can be made."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(_damaged(path, error)) from None
    if not isinstance(report, dict) or report.get("kind") != path.stem:
        raise InputError(_damaged(path, "it is not a report of this kind"))
    try:
        _texts(report)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(_damaged(path, error)) from error
    return report


def _damaged(path: Path, problem: Exception | str) -> str:
    """Message for a file that `adamplus theory` did not write."""
    reason = problem if isinstance(problem, str) else f"{type(problem).__name__}: {problem}"
    return f"{path} is not what `adamplus theory` wrote ({reason}): measure again"


def write_report(report: dict[str, Any], folder: Path) -> str:
    """Write a report's numbers, tables and figure, and the page of the folder. Returns the Markdown table."""
    kind = report["kind"]
    markdown, csv = _texts(report)
    numbers = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    for ending, text in (("json", numbers), ("md", markdown), ("csv", csv)):
        (folder / f"{kind}.{ending}").write_text(text, encoding="utf-8")
    draw = {"variance": variance_report.draw, "table1": draw_table1, "rate": draw_rates}[kind]
    draw(report, folder)
    _write_page(folder)
    return markdown


def _texts(report: dict[str, Any]) -> tuple[str, str]:
    """Tables of a report as Markdown and as CSV."""
    about = {"variance": variance_report, "table1": table1_report, "rate": tables}[report["kind"]]
    return about.markdown(report), about.to_csv(report)


def _write_page(folder: Path) -> None:
    """Write the page of all reports in a folder that have a figure."""
    style = (files("adamplus.lab.report") / "page.css").read_text(encoding="utf-8")
    drawn = [one for one in load_reports(folder) if (folder / f"{one['kind']}.png").is_file()]
    body = join(tag("h1", "The theory of Adam⁺, measured"), *(_section(one, folder) for one in drawn))
    head = join(
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        tag("title", "The theory of Adam⁺, measured"),
        tag("style", Markup(style), Markup(PICTURES)),
    )
    html = Markup("<!DOCTYPE html>\n") + tag("html", tag("head", head), tag("body", tag("main", body)), lang="en")
    (folder / "theory.html").write_text(html + "\n", encoding="utf-8")


def _section(report: dict[str, Any], folder: Path) -> Markup:
    kind = report["kind"]
    picture = base64.b64encode((folder / f"{kind}.png").read_bytes()).decode()
    shown = tag("figure", Markup(f'<img src="data:image/png;base64,{picture}" alt="{TITLES[kind]}">'))
    if kind == "variance":
        texts = [variance_report.reading(report), variance_report.note(report)]
        parts = [_table(variance_report.cells(report))]
    elif kind == "table1":
        parts = [part for title, cells in table1_report.sections(report) for part in (tag("h3", title), _table(cells))]
        texts = table1_report.notes(report)
    else:
        parts = [
            part
            for problem in problems(report)
            for part in (tag("h3", f"On {PROBLEMS[problem]}"), _table(grid(report, problem)))
        ]
        texts = notes(report)
    parts += [tag("p", _rich(note), class_="quiet notes") for note in texts]
    return tag("section", tag("h2", TITLES[kind]), shown, *parts)


def _table(cells: list[list[str]]) -> Markup:
    head, *lines = cells
    top = tag("thead", tag("tr", *(tag("th", _rich(cell)) for cell in head)))
    rows = [tag("tr", tag("th", _rich(line[0])), *(tag("td", _rich(cell)) for cell in line[1:])) for line in lines]
    return tag("div", tag("table", top, tag("tbody", *rows)), class_="scroll")


def _rich(text: str) -> Markup:
    """Turn code between backticks and exponents after ^ into HTML."""
    parts = re.split(r"(`[^`]*`|\^[−0-9.]+)", text)
    return join(
        *(
            tag("code", part[1:-1]) if part.startswith("`") else tag("sup", part[1:]) if part.startswith("^") else part
            for part in parts
        )
    )
