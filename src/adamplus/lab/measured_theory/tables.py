"""Tables of rates under the settings of theorems: Markdown, CSV, and cells for the page."""

import csv
import io
import math
from typing import Any

from .._present import DASH, count
from .._present import markdown_table as table
from .measurement import PROBLEMS
from .slopes import Slope, slope

Cells = list[list[str]]
NORMAL = 1.96
"""Half of a 95 % interval in standard deviations, for the bootstrap's intervals of evaluations."""


def grid(report: dict[str, Any], problem: str) -> Cells:
    """Table of one problem: the heading, then the lines."""
    smallest = report["epsilons"][-1]
    rows = [row for row in report["rows"] if row["problem"] == problem]
    columns = ["measured slope", f"evaluations at ε = {smallest:g}"]
    head = ["method, settings as proved", "proved", *columns, "proved to be enough"]
    return [head, *([row["name"], power(row["proved_exponent"]), *measured(row), _enough(row)] for row in rows)]


def power(exponent: float) -> str:
    """A complexity as the paper writes it, without its O."""
    return f"ε^−{exponent:g}"


def slope_of(row: dict[str, Any]) -> Slope | None:
    """Slope of a row over the ε that it reached."""
    found = [point for point in row["points"] if point["evaluations"] is not None]
    intervals = [point["interval"] for point in found]
    spreads = [math.log(high / low) / (2 * NORMAL) for low, high in intervals]
    return slope([point["epsilon"] for point in found], [point["evaluations"] for point in found], spreads)


def measured(row: dict[str, Any]) -> list[str]:
    """Cells of the slope and of the evaluations at the smallest ε."""
    return [slope_text(slope_of(row), len(row["points"])), _count(row["points"][-1]["evaluations"], "not reached")]


def slope_text(found: Slope | None, of: int) -> str:
    """A slope with half of its interval, and of how many ε it is if some were not reached."""
    if found is None:
        return DASH
    text = f"{found.value:.2f} ± {found.half:.2f}" if math.isfinite(found.half) else f"{found.value:.2f}"
    return text if found.points == of else f"{text}, of {found.points} ε"


def _enough(row: dict[str, Any]) -> str:
    return _count(row["points"][-1]["proved_evaluations"], DASH)


def _count(evaluations: float | None, otherwise: str) -> str:
    """Evaluations as 9,999, 12.3 k, 1.23 M or 3.42 · 10^9."""
    return otherwise if evaluations is None else count(evaluations, exact_below=1e4, powers=True)


def markdown(report: dict[str, Any]) -> str:
    """One table per problem, with notes on the measurement."""
    parts = []
    for problem in problems(report):
        head, *lines = grid(report, problem)
        parts.append(f"### {PROBLEMS[problem].capitalize()}\n\n{table(head, lines, left=head[:1])}")
    return "\n\n".join(parts) + "\n\n" + "\n".join(f"- {note}" for note in notes(report)) + "\n"


def problems(report: dict[str, Any]) -> list[str]:
    """Names of the report's problems, in order."""
    return list(dict.fromkeys(row["problem"] for row in report["rows"]))


def notes(report: dict[str, Any]) -> list[str]:
    """Notes on the origin and the meaning of the numbers."""
    born = report["certificate"]
    versions = ", ".join(f"{name} {version}" for name, version in born["versions"].items())
    return [
        f"`{born['command']}` on {born['hardware']}, {born['started'][:10]}; {versions}; "
        f"{born['seconds'] / 60:.1f} minutes in {born['workers']} process{'es' if born['workers'] > 1 else ''}, "
        f"which is {born['processor_seconds'] / 60:.1f} minutes of one core.",
        f"Evaluations of gradients of single samples until the mean of ‖∇F‖ over {report['runs']} runs is at most ε, "
        f"ε from {report['epsilons'][0]:g} to {report['epsilons'][-1]:g} ({len(report['epsilons'])} values). Slope: of "
        "log evaluations against log 1/ε by least squares, ± half of a 95 % interval from a bootstrap over runs "
        f"({report['resamples']:,} resamples) and the residuals of the fit.",
    ]


def to_csv(report: dict[str, Any]) -> str:
    """CSV with a line for every method, problem and ε."""
    text = io.StringIO()
    names = ["problem", "method", "proved_exponent", "slope", "slope_low", "slope_high", "epsilon", "evaluations"]
    names += ["evaluations_low", "evaluations_high", "proved_evaluations", "settings"]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in report["rows"]:
        found = slope_of(row)
        value, least, most = [None] * 3 if found is None else map(finite, (found.value, found.low, found.high))
        for point in row["points"]:
            low, high = point["interval"] or (None, None)
            line = {"problem": row["problem"], "method": row["method"], "proved_exponent": row["proved_exponent"]}
            line |= {"slope": value, "slope_low": least, "slope_high": most}
            line |= {name: point[name] for name in ("epsilon", "evaluations", "proved_evaluations", "settings")}
            writer.writerow({**line, "evaluations_low": low, "evaluations_high": high})
    return text.getvalue()


def finite(value: float) -> float | None:
    """The value, or None if it is infinite."""
    return value if math.isfinite(value) else None
