"""The figure of a search: what each learning rate came to."""

from typing import TYPE_CHECKING, Any

from .._present import STROKES, draw_legend, new_figure, put_name, scale, style
from .results import Results, TaskResults
from .rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_learning_rates(results: Results, task: TaskResults, table: list[Row]) -> "Figure | None":
    """Validation metrics of the trials; above them, a row of × each for those that came to none."""
    if not any(row.sensitivity for row in table):
        return None
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
    put_name(axes.set_ylabel, f"validation {task.metric}")
    scale(axes, task.higher, [{"mean": [value for _, value in points]} for points in searched.values()])
    put_name(figure.suptitle, task.title)
    draw_legend(figure, results.labels, [label for label in results.labels if label in searched or label in lost])
    return figure


def _lost_rates(task: TaskResults, label: str) -> list[float]:
    """Of trials that came to nothing."""
    rates = [
        run.spec["settings"].get("lr") for run in task.trials.get(label, []) if run.status in ("diverged", "failed")
    ]
    return sorted(float(rate) for rate in rates if isinstance(rate, int | float))
