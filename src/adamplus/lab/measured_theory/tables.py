"""The tables of a report: Markdown, CSV, and cells for the terminal and the page."""

import csv
import io
from typing import Any

from .._present import markdown_table as table
from .measurement import MARGIN, PROBLEMS

Cells = list[list[str]]


def grid(found: dict[str, Any], problem: str) -> Cells:
    """Heading and lines for one problem."""
    smallest = found["epsilons"][-1]
    rows = [row for row in found["rows"] if row["problem"] == problem]
    columns = ["measured slope (95 %)", f"evaluations at ε = {smallest:g}"]
    if found["kind"] == "table1":
        head = ["algorithm", "individual smooth", "Hessian Lipschitz", "proved", "data-dependent", *columns]
        return [head, *([*_assumed(row), *measured(row)] for row in rows)]
    head = ["method, settings as proved", "proved", *columns, "proved to be enough"]
    return [head, *([row["name"], power(row["proved_exponent"]), *measured(row), _enough(row)] for row in rows)]


def _assumed(row: dict[str, Any]) -> list[str]:
    said = ["yes" if row[name] else "no" for name in ("individual_smooth", "hessian_lipschitz")]
    return [row["name"], *said, power(row["proved_exponent"]), row["data_dependent"]]


def power(exponent: float) -> str:
    """As the paper writes a complexity, without its O."""
    return f"ε^−{exponent:g}"


def measured(row: dict[str, Any]) -> list[str]:
    """Slope, and evaluations at the smallest ε."""
    found, last = row["slope"], row["points"][-1]
    reached = sum(point["evaluations"] is not None for point in row["points"])
    if found is None:
        said = "–"
    else:
        said = f"{found['value']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
        said += "" if reached == len(row["points"]) else f", of {reached} ε"
    return [said, "not reached" if last["evaluations"] is None else short(last["evaluations"])]


def _enough(row: dict[str, Any]) -> str:
    enough = row["points"][-1]["proved_evaluations"]
    return "–" if enough is None else short(enough)


def short(count: float) -> str:
    """A count as people say it, with three figures."""
    if count < 1e4:
        return f"{count:,.0f}"
    if count >= 1e9:
        mantissa, exponent = f"{count:.2e}".split("e")
        return f"{mantissa} · 10^{int(exponent)}"
    unit, name = (1e6, " M") if count >= 999_500 else (1e3, " k")
    return f"{count / unit:.3g}{name}"


def markdown(found: dict[str, Any]) -> str:
    """One table a problem, with what a reader must know."""
    parts = []
    for problem in problems(found):
        head, *lines = grid(found, problem)
        parts.append(f"### {PROBLEMS[problem].capitalize()}\n\n{table(head, lines, left=head[:1])}")
    return "\n\n".join(parts) + "\n\n" + "\n".join(f"- {note}" for note in notes(found)) + "\n"


def problems(found: dict[str, Any]) -> list[str]:
    """Those that the report has, in its order."""
    return list(dict.fromkeys(row["problem"] for row in found["rows"]))


def notes(found: dict[str, Any]) -> list[str]:
    """Where the numbers come from, and what they are."""
    born = found["certificate"]
    versions = ", ".join(f"{name} {version}" for name, version in born["versions"].items())
    said = [
        f"`{born['command']}` on {born['hardware']}, {born['started'][:10]}; {versions}; "
        f"{born['seconds'] / 60:.1f} minutes in {born['workers']} process{'es' if born['workers'] > 1 else ''}, "
        f"which is {born['processor_seconds'] / 60:.1f} minutes of one core.",
        f"Evaluations of gradients of single samples until the mean of ‖∇F‖ over {found['runs']} runs is at most ε, "
        f"ε from {found['epsilons'][0]:g} to {found['epsilons'][-1]:g} ({len(found['epsilons'])} values). Slope: of "
        f"log evaluations against log 1/ε, by least squares; interval: bootstrap over runs ({found['resamples']:,} "
        "resamples).",
    ]
    if found["tuning_runs"]:
        tried = max(point["candidates"] for row in found["rows"] for point in row["points"])
        said.append(
            f"Settings are chosen for each ε among {tried} of each method, by who first has {MARGIN:g} ε in the mean "
            f"of {found['tuning_runs']} other runs; who takes more than {found['max_steps']:,} steps has not reached "
            "it. The interval does not tell of the grid of settings, whose step sizes are a factor of 2 apart and "
            "batches one of 8."
        )
    return said


def to_csv(found: dict[str, Any]) -> str:
    """A line for every method, problem and ε."""
    text = io.StringIO()
    names = ["problem", "method", "proved_exponent", "slope", "slope_low", "slope_high", "epsilon", "evaluations"]
    names += ["evaluations_low", "evaluations_high", "proved_evaluations", "settings"]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in found["rows"]:
        of = row["slope"] or {"value": None, "low": None, "high": None}
        for point in row["points"]:
            low, high = point["interval"] or (None, None)
            line = {"problem": row["problem"], "method": row["method"], "proved_exponent": row["proved_exponent"]}
            line |= {"slope": of["value"], "slope_low": of["low"], "slope_high": of["high"]}
            line |= {name: point[name] for name in ("epsilon", "evaluations", "proved_evaluations", "settings")}
            writer.writerow({**line, "evaluations_low": low, "evaluations_high": high})
    return text.getvalue()
