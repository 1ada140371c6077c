"""Figure of rates under the settings of theorems: evaluations against 1/ε, and slopes beside the proved exponents."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._present import COLOURS, STROKES, drawing, save, style, tidy
from .measurement import PROBLEMS
from .tables import problems, slope_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

GUIDE = "#9a9a9a"
DPI = 160
"""Resolution of the figures, which are twice as wide as others and are embedded in the page."""


def draw_rates(report: dict[str, Any], folder: Path) -> list[Path]:
    """Draw one panel per problem, and the slopes below. Returns the paths of the files."""
    shown = problems(report)
    names = list(dict.fromkeys(row["name"] for row in report["rows"]))
    with drawing(folder):
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter

        figure = Figure(figsize=(0.6 + 4.2 * max(len(shown), 1.4), 5.2 + 0.22 * len(names)), layout="constrained")
        heights = (4.6, 0.6 + 0.22 * len(names))
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
        panels = above.subplots(1, len(shown), squeeze=False)[0]
        for axes, problem in zip(panels, shown, strict=True):
            for row in report["rows"]:
                if row["problem"] == problem:
                    draw_line(axes, row["points"], names.index(row["name"]))
            rows = [row for row in report["rows"] if row["problem"] == problem]
            counts = [p["evaluations"] for row in rows for p in row["points"] if p["evaluations"] is not None]
            draw_guides(axes, report["epsilons"], counts)
            tidy(axes)
            axes.set_title(f"on {PROBLEMS[problem]}", fontsize=9)
            axes.set(xscale="log", yscale="log", xlabel="1/ε")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_formatter(FuncFormatter(minor_label))
        panels[0].set_ylabel("gradient evaluations until E‖∇F‖ ≤ ε")
        draw_names(above, names)
        _slopes(below.subplots(), report, names)
        return save(figure, folder / report["kind"], DPI)


def _slopes(axes: "Axes", report: dict[str, Any], names: list[str]) -> None:
    """Draw every method's measured slopes with their intervals, and its proved exponent."""
    shown = problems(report)
    for row in report["rows"]:
        place, which = names.index(row["name"]), shown.index(row["problem"])
        axes.plot(row["proved_exponent"], place, color="black", marker="|", markersize=11, linestyle="")
        found = slope_of(row)
        if found is not None and math.isfinite(found.half):
            y = place + 0.3 * (which - (len(shown) - 1) / 2)
            axes.plot([found.low, found.high], [y, y], color=COLOURS[which], linewidth=1.5)
            axes.plot(found.value, y, color=COLOURS[which], marker="os"[which], markersize=4, linestyle="")
    for which, problem in enumerate(shown):
        axes.plot([], [], color=COLOURS[which], marker="os"[which], markersize=4, label=f"on {PROBLEMS[problem]}")
    axes.plot([], [], color="black", marker="|", markersize=11, linestyle="", label="proved, in the worst case")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("measured exponent of 1/ε, 95 %")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    tidy(axes)


def minor_label(value: float, _: int) -> str:
    """Label of a minor tick: a number at 2, 3 and 5 times a power of ten only, for lack of space."""
    return f"{value:g}" if f"{value:e}"[0] in "235" else ""


def draw_line(axes: "Axes", points: list[dict[str, Any]], number: int) -> None:
    """Draw the evaluations of one method with their intervals. The line has a gap at points without evaluations."""
    if all(point["evaluations"] is None for point in points):
        return  # an axis without any number cannot be logarithmic
    colour, dash = style(number)
    gap = math.nan
    x = [1 / point["epsilon"] for point in points]
    y = [point["evaluations"] or gap for point in points]
    low, high = zip(*(point["interval"] if point["evaluations"] else (gap, gap) for point in points), strict=True)
    axes.plot(x, y, color=colour, linestyle=STROKES[dash], linewidth=1.4, marker="o", markersize=3)
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def draw_guides(axes: "Axes", epsilons: list[float], counts: list[float]) -> None:
    """Draw guide lines for slope 2 and the proved slopes, below the measured evaluations."""
    if not counts:
        return
    left, right = 1 / epsilons[0], 1 / epsilons[-1]
    begin, end = (left * (right / left) ** part for part in (0.45, 0.9))
    base = min(counts) / 5
    for slope in (2.0, 3.0, 3.5, 4.0):
        height = base * (end / begin) ** slope
        axes.plot([begin, end], [base, height], color=GUIDE, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        axes.annotate(
            f"$\\varepsilon^{{-{slope:g}}}$",
            (end, height),
            xytext=(3, 0),
            textcoords="offset points",
            color=GUIDE,
            fontsize=7,
            va="center",
        )


def draw_names(figure: "FigureBase", names: list[str]) -> None:
    """Draw the legend of all methods below a figure."""
    from matplotlib.lines import Line2D

    styles = [style(number) for number in range(len(names))]
    lines = [
        Line2D([], [], color=colour, linestyle=STROKES[dash], linewidth=1.4, marker="o", markersize=3)
        for colour, dash in styles
    ]
    figure.legend(lines, names, loc="outside lower center", ncols=3, frameon=False, handlelength=3.2, fontsize=8)
