"""Tables of the measured Table 1: Markdown, CSV, and cells for the page."""

from itertools import pairwise
from typing import Any

import numpy as np

from .._present import DASH, count, csv_table, decimal
from .._present import markdown_table as table
from ._methods import FINER, METHODS, SHARES, STEPS
from .cases import BEYOND, CRITERIA, GAP, MARGIN, PATIENCE, SPARE
from .slopes import Slope, slope, two_point_slopes
from .tables import finite, slope_text

Cells = list[list[str]]
Report = dict[str, Any]
NAMES = {
    "double-well": "The double well",
    "valley": "The valley",
    "double-well-100": "The double well in 100 dimensions",
    "valley-100": "The valley in 100 dimensions",
    "double-well-noisy": "The double well with σ = 4",
    "valley-noisy": "The valley with σ = 4",
}
HEADS = {"last": "last iterate", "average": "moving average", "random": "random iterate"}
FULL = ("double-well", "valley")
"""Problems whose neighbouring ε and sums are tabulated as well."""


def problems(report: Report) -> list[str]:
    """Names of the report's problems, in order."""
    return list(dict.fromkeys(row["problem"] for row in report["rows"]))


def evaluations(row: dict[str, Any], criterion: str) -> list[float | None]:
    """Evaluations of a row for all ε; None where it did not arrive."""
    results = (point["results"][criterion] for point in row["points"])
    return [None if result is None else result["evaluations"] for result in results]


def reached(row: dict[str, Any], criterion: str) -> list[tuple[float, dict[str, Any]]]:
    """All ε that a row reached under a criterion, each with its result."""
    return [
        (point["epsilon"], point["results"][criterion])
        for point, needed in zip(row["points"], evaluations(row, criterion), strict=True)
        if needed is not None
    ]


def slope_of(row: dict[str, Any], criterion: str) -> Slope | None:
    """Slope of a row under a criterion, over the ε that it reached."""
    found = reached(row, criterion)
    results = [result for _, result in found]
    return slope([e for e, _ in found], [r["evaluations"] for r in results], [r["spread"] for r in results])


def count_text(needed: float | None) -> str:
    """Evaluations as 9,999, 12.3 k or 1.23 M."""
    return DASH if needed is None else count(needed, exact_below=1e4, powers=True)


def grid(report: Report, problem: str) -> Cells:
    """Table of one problem: slopes and evaluations under the three criteria."""
    rows = _rows(report, problem)
    smallest = rows[0]["points"][-1]["epsilon"]
    heads = [f"{HEADS[c]}: {what}" for c in CRITERIA for what in ("slope", f"evaluations at ε = {smallest:g}")]
    lines = []
    for row in rows:
        about, cells = METHODS[row["method"]], []
        for criterion in CRITERIA:
            cells.append(slope_text(slope_of(row, criterion), len(row["points"])))
            cells.append(count_text(evaluations(row, criterion)[-1]))
        lines.append([about.name, about.source, _assumed(about), power(about.exponent), about.data_dependent, *cells])
    return [["algorithm", "source", "assumes", "proved", "data-dependent", *heads], *lines]


def summary(report: Report) -> Cells:
    """Evaluations at the smallest ε and slopes on the problems with all ε, at last iterates and at averages."""
    shown = [problem for problem in problems(report) if problem in FULL]
    columns = [(problem, criterion) for problem in shown for criterion in ("last", "average")]
    rows = {(row["problem"], row["method"]): row for row in report["rows"]}
    lines = []
    for method in dict.fromkeys(row["method"] for row in report["rows"]):
        cells = []
        for problem, criterion in columns:
            row = rows[problem, method]
            needed, found = evaluations(row, criterion)[-1], slope_of(row, criterion)
            cells.append(f"{count_text(needed)}; {slope_text(found, len(row['points']))}")
        lines.append([METHODS[method].name, power(METHODS[method].exponent), *cells])
    return [["algorithm", "proved", *(f"{NAMES[p]}, {HEADS[c]}" for p, c in columns)], *lines]


def neighbours(report: Report, problem: str, criterion: str) -> Cells:
    """Slopes between neighbouring ε."""
    rows = _rows(report, problem)
    epsilons = [point["epsilon"] for point in rows[0]["points"]]
    heads = [f"{a:.2g} to {b:.2g}" for a, b in pairwise(epsilons)]
    lines = [
        [METHODS[row["method"]].name, *(map(_two_digits, two_point_slopes(epsilons, evaluations(row, criterion))))]
        for row in rows
    ]
    return [["algorithm", *heads], *lines]


def sums(report: Report, problem: str) -> Cells:
    """Sums of type I and type II when the average arrives, and their growth as powers of the number of steps."""
    lines = []
    for row in _rows(report, problem):
        found = reached(row, "average")
        if not found or found[-1][0] != row["points"][-1]["epsilon"]:
            lines.append([METHODS[row["method"]].name, *[DASH] * 5])
            continue
        last = found[-1][1]
        steps = [result["steps"] for _, result in found]
        lines.append(
            [
                METHODS[row["method"]].name,
                f"{last['steps']:,}",
                *(
                    cell
                    for name in ("type1", "type2")
                    for cell in (
                        decimal(last[name]),
                        _two_digits(_power_of(steps, [result[name] for _, result in found])),
                    )
                ),
            ]
        )
    return [["algorithm", "steps T", "Σ_i‖g_{1:T,i}‖", "as a power of T", "Σ_t‖z_t‖", "as a power of T"], *lines]


def _power_of(steps: list[int], values: list[float]) -> float | None:
    """Exponent of the growth of values with the number of steps, by least squares of logarithms."""
    x, y = np.log(steps), np.log(values)
    spread = x - x.mean()
    return float(spread @ y / (spread @ spread)) if len(x) > 1 and spread.any() else None


def _rows(report: Report, problem: str) -> list[dict[str, Any]]:
    return [row for row in report["rows"] if row["problem"] == problem]


def _assumed(about: Any) -> str:
    if about.individual_smooth:
        return "individual smooth"
    return "Hessian Lipschitz" if about.hessian_lipschitz else DASH


def power(exponent: float | None) -> str:
    """A complexity as the paper writes it, without its O."""
    return DASH if exponent is None else f"ε^−{exponent:g}"


def _two_digits(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def sections(report: Report) -> list[tuple[str, Cells]]:
    """All tables with their titles."""
    smallest = min(report["epsilons"])
    found = [(f"Evaluations at ε = {smallest:g}, and slopes", summary(report))]
    found += [(NAMES[problem], grid(report, problem)) for problem in problems(report)]
    for problem in problems(report):
        if problem in FULL:
            name = NAMES[problem]
            found += [
                (f"{name}: slopes between neighbouring ε, {HEADS[criterion]}", neighbours(report, problem, criterion))
                for criterion in ("last", "average")
            ]
            found.append((f"{name}: sums of type I and type II", sums(report, problem)))
    return found


def markdown(report: Report) -> str:
    """All tables, with notes on the measurement."""
    text = ("algorithm", "source", "assumes")
    parts = [f"### {title}\n\n{table(head, lines, left=text)}" for title, (head, *lines) in sections(report)]
    return "\n\n".join(parts) + "\n\n" + "\n".join(f"- {note}" for note in notes(report)) + "\n"


def notes(report: Report) -> list[str]:
    """Notes on the origin and the meaning of the numbers."""
    born = report["certificate"]
    versions = ", ".join(f"{name} {version}" for name, version in born["versions"].items())
    tried = sorted({point["candidates"] for row in report["rows"] for point in row["points"]})
    return [
        f"`{born['command']}` on {born['hardware']}, {born['started'][:10]}; {versions}; "
        f"{born['processor_seconds'] / 60:.0f} minutes of one core.",
        f"Evaluations of gradients of single samples until the mean of ‖∇F‖ over {report['runs']} runs is at most ε. "
        "Last iterate: the point where gradients are taken, ŵ for the Adam⁺ family. Moving average: of these points, w "
        "for the family. Random iterate: mean over all iterates so far, as in the theorems. The first two stop as an "
        "oracle would.",
        f"Settings are chosen for each ε and each of the three, among {_span(tried)} candidates, by the fewest "
        f"evaluations until {MARGIN:g} ε in the mean of {report['tuning_runs']} other runs. Candidates of the first "
        f"stage have {len(STEPS)} step sizes (factors of 2 apart), {len(SHARES)} batches (factors of 8), 1 or 3 values "
        "of one more setting, and 3 weights of the average, if the method has none. Those of the second have "
        f"{len(FINER)} batches around each of the two that were chosen at the last iterate and at the average (factors "
        "of 2), and the chosen step size and its neighbours. A walk ends after "
        f"{PATIENCE:g}/ε² + {SPARE:,} steps. Δ = {GAP:g} on the valley.",
        "Slope: log evaluations against log 1/ε by least squares, ± half of a 95 % interval. It contains the choice of "
        f"runs and of settings ({report['resamples']} bootstrap resamples, which choose settings again) and the "
        f"residuals of the fit, with Student's t. Curves end at {BEYOND:g} times the evaluations, which limits a "
        "resample.",
        "Sums: at the moving average's arrival at the smallest ε, Σ_i‖g_{1:T,i}‖ over coordinates of the sampled "
        "gradients (type I) and Σ_t‖z_t‖ of the method's estimate of ∇F (type II), in the mean over runs; their powers "
        "of T are fitted over all ε.",
    ]


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"


def to_csv(report: Report) -> str:
    """CSV with a line for every method, problem, criterion and ε."""
    names = ["evaluations", "interval", "spread", "choices", "steps", "type1", "type2", "settings", "edges"]
    head = ["problem", "method", "criterion", "slope", "slope_low", "slope_high", "epsilon"]
    head += ["evaluations", "evaluations_low", "evaluations_high", *names[2:]]
    lines = []
    for row in report["rows"]:
        for criterion in CRITERIA:
            found = slope_of(row, criterion)
            of = [None] * 3 if found is None else [finite(found.value), finite(found.low), finite(found.high)]
            for point in row["points"]:
                result = point["results"][criterion] or {}
                low, high = result.get("interval") or (None, None)
                edges = [f"{name} {'+' if side > 0 else '−'}" for name, side in result.get("edges", {}).items() if side]
                cells = [result.get("evaluations"), low, high, *(result.get(name) for name in names[2:-1])]
                lines.append(
                    [row["problem"], row["method"], criterion, *of, point["epsilon"], *cells, ", ".join(edges)]
                )
    return csv_table(head, lines)
