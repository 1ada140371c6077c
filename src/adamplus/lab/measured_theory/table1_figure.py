"""Figure of the measured Table 1: evaluations against 1/ε at last and averaged iterates, and the slopes of both."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._present import COLOURS, drawing, save, tidy
from ._methods import METHODS
from .figures import DPI, draw_guides, draw_line, draw_names, minor_label
from .table1_report import FULL, HEADS, NAMES, problems, reached, slope_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("last", "average")
"""The criteria that are drawn; the table has the third as well."""


def draw_table1(report: dict[str, Any], folder: Path) -> list[Path]:
    """Draw a panel for each problem and criterion, and the slopes below. Returns the paths of the files."""
    shown = [problem for problem in problems(report) if problem in FULL] or problems(report)[:1]
    methods = list(dict.fromkeys(row["method"] for row in report["rows"]))
    names = [METHODS[method].name for method in methods]
    with drawing(folder):
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter

        figure = Figure(figsize=(9.6, 9.6 + 0.24 * len(names)), layout="constrained")
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(8.6, 1 + 0.24 * len(names)))[:, 0]
        panels = above.subplots(len(SHOWN), len(shown), squeeze=False, sharex=True)
        for criterion, line in zip(SHOWN, panels, strict=True):
            for problem, axes in zip(shown, line, strict=True):
                counts = []
                for row in report["rows"]:
                    if row["problem"] == problem:
                        found = dict(reached(row, criterion))
                        points = [{"epsilon": e, "evaluations": None, **found.get(e, {})} for e in report["epsilons"]]
                        counts += [result["evaluations"] for result in found.values()]
                        draw_line(axes, points, methods.index(row["method"]))
                draw_guides(axes, report["epsilons"], counts)
                tidy(axes)
                axes.set_title(f"{NAMES[problem]}, {HEADS[criterion]}", fontsize=9)
                axes.set(xscale="log", yscale="log")
                axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axes.xaxis.set_minor_formatter(FuncFormatter(minor_label))
        for axes in panels[-1]:
            axes.set_xlabel("1/ε")
        for axes in panels[:, 0]:
            axes.set_ylabel("gradient evaluations until E‖∇F‖ ≤ ε")
        draw_names(above, names)
        slopes = below.subplots(1, len(SHOWN), sharey=True)
        for criterion, axes in zip(SHOWN, slopes, strict=True):
            _slopes(axes, report, criterion, methods, shown)
        below.legend(
            *slopes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8
        )
        return save(figure, folder / report["kind"], DPI)


def _slopes(axes: "Axes", report: dict[str, Any], criterion: str, methods: list[str], shown: list[str]) -> None:
    """Draw every method's measured slopes with their intervals, and its proved exponent."""
    for row in report["rows"]:
        if row["problem"] not in shown:
            continue
        place, which = methods.index(row["method"]), shown.index(row["problem"])
        exponent, found = METHODS[row["method"]].exponent, slope_of(row, criterion)
        if exponent is not None:
            axes.plot(exponent, place, color="black", marker="|", markersize=11, linestyle="")
        if found is not None and math.isfinite(found.half):
            y = place + 0.3 * (which - (len(shown) - 1) / 2)
            axes.plot([found.low, found.high], [y, y], color=COLOURS[which], linewidth=1.5)
            axes.plot(found.value, y, color=COLOURS[which], marker="os"[which], markersize=4, linestyle="")
    for which, problem in enumerate(shown):
        axes.plot([], [], color=COLOURS[which], marker="os"[which], markersize=4, label=NAMES[problem])
    axes.plot([], [], color="black", marker="|", markersize=11, linestyle="", label="proved, in the worst case")
    axes.set_yticks(range(len(methods)), [METHODS[method].name for method in methods])
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.set_xlim(1, 5.6)
    axes.set_xlabel(f"exponent of 1/ε, {HEADS[criterion]}, 95 %")
    tidy(axes)
