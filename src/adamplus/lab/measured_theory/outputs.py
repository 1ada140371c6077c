"""The files of a folder of measurements: numbers as JSON, tables, figures, and one page that shows them all."""

import base64
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from .._present import Markup, join, tag
from ..errors import InputError
from . import variance_report
from .measurement import PROBLEMS
from .tables import grid, notes, problems

TITLES = {
    "table1": "Table 1 of the paper, measured",
    "rate": "Rates under the settings that are proved",
    "variance": "How exact z is",
}

PICTURES = """
figure { margin: 1rem 0; } figure img { max-width: 100%; background: #fff; }
tbody th { max-width: none; white-space: nowrap; }
"""


def write_page(folder: Path) -> Path:
    """Make the page of whatever has been measured into this folder."""
    style = (files("adamplus.lab.report") / "page.css").read_text(encoding="utf-8")
    drawn = [one for one in stored(folder) if (folder / f"{one['kind']}.png").is_file()]
    body = join(tag("h1", "The theory of Adam⁺, measured"), *(_section(one, folder) for one in drawn))
    head = join(
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        tag("title", "The theory of Adam⁺, measured"),
        tag("style", Markup(style), Markup(PICTURES)),
    )
    path = folder / "theory.html"
    html = Markup("<!DOCTYPE html>\n") + tag("html", tag("head", head), tag("body", tag("main", body)), lang="en")
    path.write_text(html + "\n", encoding="utf-8")
    return path


def stored(folder: Path) -> list[dict[str, Any]]:
    """What has been measured into this folder."""
    return [load(folder / f"{kind}.json") for kind in TITLES if (folder / f"{kind}.json").is_file()]


def _section(found: dict[str, Any], folder: Path) -> Markup:
    kind = found["kind"]
    picture = base64.b64encode((folder / f"{kind}.png").read_bytes()).decode()
    shown = tag("figure", Markup(f'<img src="data:image/png;base64,{picture}" alt="{TITLES[kind]}">'))
    if kind == "variance":
        said = [variance_report.reading(found), variance_report.note(found)]
        parts = [_table(variance_report.cells(found))]
    else:
        parts = [
            part
            for problem in problems(found)
            for part in (tag("h3", f"On {PROBLEMS[problem]}"), _table(grid(found, problem)))
        ]
        said = notes(found)
    parts += [tag("p", _rich(note), class_="quiet notes") for note in said]
    return tag("section", tag("h2", TITLES[kind]), shown, *parts)


def _table(cells: list[list[str]]) -> Markup:
    head, *lines = cells
    top = tag("thead", tag("tr", *(tag("th", _rich(cell)) for cell in head)))
    rows = [tag("tr", tag("th", _rich(line[0])), *(tag("td", _rich(cell)) for cell in line[1:])) for line in lines]
    return tag("div", tag("table", top, tag("tbody", *rows)), class_="scroll")


def _rich(text: str) -> Markup:
    """Code between backticks and exponents after ^, as Markdown and the table's cells write them."""
    parts = re.split(r"(`[^`]*`|\^[−0-9.]+)", text)
    return join(
        *(
            tag("code", part[1:-1]) if part.startswith("`") else tag("sup", part[1:]) if part.startswith("^") else part
            for part in parts
        )
    )


def save(found: dict[str, Any], folder: Path) -> Path:
    """Write the report as JSON."""
    path = folder / f"{found['kind']}.json"
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(damaged(path, error)) from None
    if not isinstance(found, dict) or found.get("kind") != path.stem:
        raise InputError(damaged(path, "it is of another kind"))
    return found


def damaged(path: Path, problem: Exception | str) -> str:
    """What is said of a file that somebody else has written to."""
    said = problem if isinstance(problem, str) else f"{type(problem).__name__}: {problem}"
    return f"{path} is not what `adamplus theory` wrote ({said}): measure again"
