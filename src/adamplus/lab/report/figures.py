"""The figures of a comparison, as PNG and PDF: learning curves, and what each learning rate achieved."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._present import STROKES, draw_curve, draw_legend, drawing, mark_epochs, new_figure, put_name, save, scale
from .._store import plain
from .charts import curves
from .results import Results, TaskResults
from .rows import ContenderRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPLITS = {"train": "training {}", "running": "training {}, running mean", "test": "test {}"}
"""Titles of the vertical axis."""


def figures(results: Results, tables: list[list[ContenderRow]], folder: Path) -> list[Path]:
    """Draw the figures of each task that its runs have data for, and return the files' paths."""
    made: list[Path] = []
    with drawing(folder):
        for stem, task, table in zip(_stems(results), results.tasks, tables, strict=True):
            for name, draw in FIGURES.items():
                if (figure := draw(results, task, table)) is not None:
                    made += save(figure, folder / f"{stem}-{name}")
    return made


def _stems(results: Results) -> list[str]:
    """A file name for each task; names that would be equal as file names get numbers."""
    stems = [plain(task.name) for task in results.tasks]
    return [stem if stems.count(stem) == 1 else f"{stem}-{i}" for i, stem in enumerate(stems, 1)]


def draw_curves(results: Results, task: TaskResults, _: list[ContenderRow]) -> "Figure | None":
    """Training and test metric beside each other: means over seeds, with their standard errors."""
    if not any(run.epochs for runs in task.finals.values() for run in runs):
        return None
    figure, panels = new_figure(2)
    found = {label: curves(task.finals.get(label, [])) for label in results.labels}
    evaluated = any(f"train_{task.metric}" in curve["columns"] for curve in found.values())
    for axes, split in zip(panels, ("train" if evaluated else "running", "test"), strict=True):
        name = f"{split}_{task.metric}"
        for label, curve in found.items():
            if name in curve["columns"]:
                draw_curve(axes, curve["epoch"], curve["columns"][name], results.styles[label])
        put_name(axes.set_ylabel, SPLITS[split].format(task.metric))
        mark_epochs(axes)
        scale(axes, task.higher, [column for curve in found.values() if (column := curve["columns"].get(name))])
    put_name(figure.suptitle, task.title)
    draw_legend(figure, {label: results.styles[label] for label, curve in found.items() if curve["epoch"]})
    return figure


def draw_learning_rates(results: Results, task: TaskResults, table: list[ContenderRow]) -> "Figure | None":
    """Validation metrics of the trials; above the axes, a row of × per contender for trials that were lost."""
    if not any(row.sensitivity for row in table):
        return None
    figure, (axes,) = new_figure(1)
    searched = {row.label: row.sensitivity.points for row in table if row.sensitivity is not None}
    lost = {label: rates for label in results.labels if (rates := _lost_rates(task, label))}
    for label, points in searched.items():
        colour, dash = results.styles[label]
        look: Any = {"color": colour, "linestyle": STROKES[dash], "linewidth": 1.3, "marker": "o", "markersize": 3.5}
        axes.plot(*zip(*((rate, value) for rate, value in points if value is not None), strict=True), **look)
    for i, (label, rates) in enumerate(lost.items()):
        colour, _ = results.styles[label]
        cross: Any = {"color": colour, "linestyle": "", "marker": "x", "markersize": 4, "clip_on": False}
        axes.plot(rates, [1.03 + 0.04 * i] * len(rates), transform=axes.get_xaxis_transform(), **cross)
    axes.set_xscale("log")
    axes.set_xlabel("learning rate (×: diverged or failed)" if lost else "learning rate")
    put_name(axes.set_ylabel, f"validation {task.metric}")
    scale(axes, task.higher, [{"mean": [value for _, value in points]} for points in searched.values()])
    put_name(figure.suptitle, task.title)
    draw_legend(figure, {label: own for label, own in results.styles.items() if label in searched or label in lost})
    return figure


def _lost_rates(task: TaskResults, label: str) -> list[float]:
    """Learning rates of the trials that diverged or failed."""
    trials = (run for run in task.trials.get(label, []) if run.status in ("diverged", "failed"))
    rates = (run.spec["settings"].get("lr") for run in trials)
    return sorted(float(rate) for rate in rates if isinstance(rate, int | float))


FIGURES: dict[str, Callable[[Results, TaskResults, list[ContenderRow]], "Figure | None"]] = {
    "curves": draw_curves,
    "learning-rates": draw_learning_rates,
}
"""What draws a figure of a task, by the ending of its file's name; None if there is nothing to show."""
