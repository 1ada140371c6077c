"""Figures as in papers: curves of training and test, and of learning rates, as PNG and PDF."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._errors import InputError
from .._spec import plain
from ._charts import curves, style
from ._results import Results, TaskResults
from ._tables import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STROKES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1, 1.5)),
    "dashdot": (0, (5, 1.5, 1, 1.5)),
    "longdash": (0, (9, 2.5)),
    "longdashdot": (0, (9, 2, 1, 2)),
}
"""The page's dashes, in matplotlib's words."""
STYLE: dict[Any, Any] = {"font.family": "serif", "mathtext.fontset": "dejavuserif", "font.size": 9, "pdf.fonttype": 42}
"""Type 42: the text of a PDF can be searched, and journals take it."""


def figures(results: Results, tables: list[list[Row]], folder: Path) -> list[Path]:
    """Draw each task's curves, and its learning rates where some were searched; the files' paths."""
    made: list[Path] = []
    with drawing(folder):
        for stem, task, table in zip(_stems(results), results.tasks, tables, strict=True):
            if any(run.epochs for runs in task.finals.values() for run in runs):
                made += save(_curves(results, task), folder / f"{stem}-curves")
            if any(row.sensitivity for row in table):
                made += save(_learning_rates(results, task, table), folder / f"{stem}-learning-rates")
    return made


@contextmanager
def drawing(folder: Path) -> Iterator[None]:
    """Draw figures of one style into a folder, which is made."""
    try:
        from matplotlib import rc_context
    except ModuleNotFoundError as error:
        raise InputError(f"figures need {error.name}, which is not installed: pip install 'adamplus[lab]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # a name's; it is drawn as a box
        yield


def _stems(results: Results) -> list[str]:
    """A file name a task; two that differ only in signs that files do not have get numbers."""
    stems = [plain(task.name) for task in results.tasks]
    return [stem if stems.count(stem) == 1 else f"{stem}-{i}" for i, stem in enumerate(stems, 1)]


def save(figure: "Figure", stem: Path, dpi: int = 200) -> list[Path]:
    """As PNG and PDF; their paths."""
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "pdf")]
    for path in paths:  # without the time in them, so that the same figure is the same file
        figure.savefig(path, dpi=dpi, metadata={"CreationDate": None} if path.suffix == ".pdf" else None)
    return paths


def new_figure(panels: int) -> tuple["Figure", list["Axes"]]:
    """Panels beside each other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.2 + 3.3 * panels, 3.1), layout="constrained")
    axes = list(figure.subplots(1, panels, squeeze=False)[0])
    for one in axes:
        one.grid(color="#e4e4e4", linewidth=0.6)
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _curves(results: Results, task: TaskResults) -> "Figure":
    from matplotlib.ticker import MaxNLocator

    figure, panels = new_figure(2)
    found = {label: curves(task.finals.get(label, [])) for label in results.labels}
    evaluated = any(f"train_{task.metric}" in curve["columns"] for curve in found.values())
    for axes, split in zip(panels, ("train" if evaluated else "running", "test"), strict=True):
        name = f"{split}_{task.metric}"
        for label, curve in found.items():
            if name in curve["columns"]:
                draw_curve(axes, curve["epoch"], curve["columns"][name], results.labels.index(label))
        said = {"train": "training {}", "running": "training {}, running mean", "test": "test {}"}[split]
        _name(axes.set_ylabel, said.format(task.metric))
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _scale(axes, task, [column for curve in found.values() if (column := curve["columns"].get(name))])
    _name(figure.suptitle, task.title)
    draw_legend(figure, results.labels, [label for label, curve in found.items() if curve["epoch"]])
    return figure


def draw_curve(axes: "Axes", epochs: list[int], column: dict[str, list[Any]], number: int) -> None:
    """A contender's mean with its standard error."""
    colour, dash = style(number)
    mean = [math.nan if value is None else value for value in column["mean"]]
    error = [value or 0.0 for value in column["error"]]
    axes.plot(
        epochs, mean, color=colour, linestyle=STROKES[dash], linewidth=1.5, marker="o" if len(mean) == 1 else None
    )
    low, high = ([value + sign * by for value, by in zip(mean, error, strict=True)] for sign in (-1, 1))
    axes.fill_between(epochs, low, high, color=colour, alpha=0.16, linewidth=0)


def _scale(axes: "Axes", task: TaskResults, columns: list[dict[str, list[Any]]]) -> None:
    """Logarithmic for what falls by a factor of many, as on the page: the end of training is what one looks at."""
    values = [value for column in columns for value in column["mean"] if value is not None]
    if not task.higher and values and 0 < 8 * min(values) < max(values):
        axes.set_yscale("log")


def _learning_rates(results: Results, task: TaskResults, table: list[Row]) -> "Figure":
    """Validation metrics of the trials; above them, a row of × each for those that came to none."""
    figure, (axes,) = new_figure(1)
    searched = {row.label: row.sensitivity.points for row in table if row.sensitivity is not None}
    lost = {label: rates for label in results.labels if (rates := _lost_rates(task, label))}
    for label, points in searched.items():
        colour, dash = style(results.labels.index(label))
        look: Any = {"color": colour, "linestyle": STROKES[dash], "linewidth": 1.3, "marker": "o", "markersize": 3.5}
        axes.plot(*zip(*((rate, value) for rate, value in points if value is not None), strict=True), **look)
    for i, (label, rates) in enumerate(lost.items()):
        colour, _ = style(results.labels.index(label))
        cross: Any = {"color": colour, "linestyle": "", "marker": "x", "markersize": 4, "clip_on": False}
        axes.plot(rates, [1.03 + 0.04 * i] * len(rates), transform=axes.get_xaxis_transform(), **cross)
    axes.set_xscale("log")
    axes.set_xlabel("learning rate (×: diverged or failed)" if lost else "learning rate")
    _name(axes.set_ylabel, f"validation {task.metric}")
    _scale(axes, task, [{"mean": [value for _, value in points]} for points in searched.values()])
    _name(figure.suptitle, task.title)
    draw_legend(figure, results.labels, [label for label in results.labels if label in searched or label in lost])
    return figure


def _lost_rates(task: TaskResults, label: str) -> list[float]:
    """Of trials that came to nothing."""
    rates = [
        run.spec["settings"].get("lr") for run in task.trials.get(label, []) if run.status in ("diverged", "failed")
    ]
    return sorted(float(rate) for rate in rates if isinstance(rate, int | float))


def draw_legend(figure: "Figure", labels: list[str], shown: list[str]) -> None:
    """Below all panels, the names of those that are shown."""
    from matplotlib.lines import Line2D

    styles = [style(labels.index(label)) for label in shown]
    lines = [Line2D([], [], color=colour, linestyle=STROKES[dash], linewidth=1.5) for colour, dash in styles]
    # Of long ones, who it is and how it ends: variants of one optimizer differ in their last settings.
    names = [f"{label[:12]}…{label[-19:]}" if len(label) > 32 else label for label in shown]
    width, height = figure.get_size_inches()
    columns = int(width / (0.75 + 0.075 * max(map(len, names), default=1)))  # inches of a line, and of a letter
    rows = math.ceil(len(names) / min(max(1, columns), 4))
    columns = math.ceil(len(names) / max(1, rows)) or 1  # as full as each other
    figure.set_size_inches(width, height + 0.18 * rows)
    # matplotlib leaves out what begins with an underscore, as a file's name may
    names = [f"\u200b{name}" for name in names]
    legend = figure.legend(lines, names, loc="outside lower center", ncols=columns, frameon=False, handlelength=3)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _name(put: Callable[..., Any], text: str) -> None:
    """Set a text that somebody else has written: a dollar sign in it is a dollar sign."""
    put(text, parse_math=False)
