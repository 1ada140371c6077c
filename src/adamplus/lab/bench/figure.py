"""The figure of `adamplus bench scale`: time of a step against parameters and against tensors."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._present import COLOURS, GREY, count, tidy
from .report import BenchReport, InputError, ModelCosts

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

BY_PARAMETERS, BY_TENSORS = "GPT-2 layers", "equal tensors"
FORMATS = (".png", ".svg", ".pdf")


def check_drawable(path: Path | None) -> None:
    """Raise InputError if the ending is no format, before anything is measured."""
    if path is not None and path.suffix not in FORMATS:
        raise InputError(f"{path}: a figure's ending must be one of {', '.join(FORMATS)}")


def draw(report: BenchReport, path: Path) -> None:
    """Draw the report of `bench scale` into a file whose ending sets the format."""
    from matplotlib.figure import Figure

    check_drawable(path)
    by_parameters = [m for m in report.models if m.model == BY_PARAMETERS]
    by_tensors = [m for m in report.models if m.model == BY_TENSORS]
    if not (by_parameters and by_tensors):
        raise InputError(f"only reports of `bench scale` have a figure, and this one is of `bench {report.kind}`")
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    names = list(dict.fromkeys(row.optimizer for model in report.models for row in model.rows))
    colours: dict[str, str] = dict(zip(names, COLOURS, strict=False))
    left, right = figure.subplots(1, 2, sharey=True)
    panel(left, by_parameters, [m.parameters for m in by_parameters], colours)
    panel(right, by_tensors, [m.tensors for m in by_tensors], colours)
    left.set(xlabel="parameters, in layers of a GPT-2", ylabel="time of one step, ms")
    right.set(xlabel=f"tensors, of {count(by_tensors[0].parameters)} parameters together")
    captured = any(row.captured_ms is not None for model in report.models for row in model.rows)
    left.legend(handles=legend(colours, captured), frameon=False, loc="upper left", fontsize=9)
    born = report.certificate
    figure.suptitle(
        f"{born['hardware']} · torch {born['torch']} · float32 · {born['date']}",
        fontsize=10,
        color=GREY,
        x=0.99,
        ha="right",
    )
    figure.savefig(path, dpi=160)


def panel(axes: Any, lists: list[ModelCosts], x: list[int], colours: dict[str, str]) -> None:
    """Draw one line per optimizer and way of launching, and the floor."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for name, colour in colours.items():
        eager: list[tuple[int, float]] = []
        captured: list[tuple[int, float]] = []
        for at, model in zip(x, lists, strict=True):
            for row in model.rows:
                if row.optimizer == name:
                    eager.append((at, row.eager_ms))
                    if row.captured_ms is not None:
                        captured.append((at, row.captured_ms))
        axes.plot(*zip(*eager, strict=True), color=colour, marker="o", markersize=4.5, linewidth=1.8)
        if captured:
            points = zip(*captured, strict=True)
            axes.plot(
                *points, color=colour, marker="o", markersize=4.5, markerfacecolor="white", linewidth=1.2, linestyle=":"
            )
    axes.plot(x, [model.floor_ms for model in lists], color=GREY, linestyle="--", linewidth=1.2)
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_locator(LogLocator(10))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count(round(value))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    tidy(axes, which="major", linewidth=0.8)


def legend(colours: dict[str, str], captured: bool) -> "list[Line2D]":
    """Legend entries: colours are optimizers, strokes are ways of launching."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, linewidth=1.8, label=name) for name, colour in colours.items()]
    if captured:
        handles += [
            Line2D([], [], color=GREY, marker="o", markersize=4.5, label="eager"),
            Line2D([], [], color=GREY, marker="o", markersize=4.5, markerfacecolor="white", ls=":", label="captured"),
        ]
    return [
        *handles,
        Line2D([], [], color=GREY, linestyle="--", label="floor: what Adam⁺ must move,\nat the speed of a copy"),
    ]
