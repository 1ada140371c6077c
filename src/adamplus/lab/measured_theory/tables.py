"""Tables of measured rates: Markdown, CSV, and cells for the page."""

import csv
import io
from typing import Any

from .._present import DASH, count
from .._present import markdown_table as table
from .measurement import PROBLEMS

Cells = list[list[str]]


def grid(report: dict[str, Any], problem: str) -> Cells:
    """Table of one problem: the heading, then the lines."""
    smallest = report["epsilons"][-1]
    rows = [row for row in report["rows"] if row["problem"] == problem]
    columns = ["measured slope (95 %)", f"evaluations at ε = {smallest:g}"]
    if report["kind"] == "table1":
        head = ["algorithm", "individual smooth", "Hessian Lipschitz", "proved", "data-dependent", *columns]
        return [head, *([*_assumed(row), *measured(row)] for row in rows)]
    head = ["method, settings as proved", "proved", *columns, "proved to be enough"]
    return [head, *([row["name"], power(row["proved_exponent"]), *measured(row), _enough(row)] for row in rows)]


def _assumed(row: dict[str, Any]) -> list[str]:
    assumed = ["yes" if row[name] else "no" for name in ("individual_smooth", "hessian_lipschitz")]
    return [row["name"], *assumed, power(row["proved_exponent"]), row["data_dependent"]]


def power(exponent: float) -> str:
    """A complexity as the paper writes it, without its O."""
    return f"ε^−{exponent:g}"


def measured(row: dict[str, Any]) -> list[str]:
    """Cells of the slope and of the evaluations at the smallest ε."""
    slope, last = row["slope"], row["points"][-1]
    reached = sum(point["evaluations"] is not None for point in row["points"])
    if slope is None:
        text = DASH
    else:
        text = f"{slope['value']:.2f} ({slope['low']:.2f} to {slope['high']:.2f})"
        text += "" if reached == len(row["points"]) else f", of {reached} ε"
    return [text, _count(last["evaluations"], "not reached")]


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
        f"log evaluations against log 1/ε, by least squares; interval: bootstrap over runs ({report['resamples']:,} "
        "resamples).",
    ]


def to_csv(report: dict[str, Any]) -> str:
    """CSV with a line for every method, problem and ε."""
    text = io.StringIO()
    names = ["problem", "method", "proved_exponent", "slope", "slope_low", "slope_high", "epsilon", "evaluations"]
    names += ["evaluations_low", "evaluations_high", "proved_evaluations", "settings"]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in report["rows"]:
        of = row["slope"] or {"value": None, "low": None, "high": None}
        for point in row["points"]:
            low, high = point["interval"] or (None, None)
            line = {"problem": row["problem"], "method": row["method"], "proved_exponent": row["proved_exponent"]}
            line |= {"slope": of["value"], "slope_low": of["low"], "slope_high": of["high"]}
            line |= {name: point[name] for name in ("epsilon", "evaluations", "proved_evaluations", "settings")}
            writer.writerow({**line, "evaluations_low": low, "evaluations_high": high})
    return text.getvalue()
