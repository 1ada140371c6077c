"""The figure of a task's curves: training and test beside each other."""

from typing import TYPE_CHECKING

from .._present import draw_curve, draw_legend, new_figure, put_name, scale
from .charts import curves
from .results import Results, TaskResults
from .rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_curves(results: Results, task: TaskResults, _: list[Row]) -> "Figure | None":
    """Means over seeds, with their standard errors."""
    from matplotlib.ticker import MaxNLocator

    if not any(run.epochs for runs in task.finals.values() for run in runs):
        return None
    figure, panels = new_figure(2)
    found = {label: curves(task.finals.get(label, [])) for label in results.labels}
    evaluated = any(f"train_{task.metric}" in curve["columns"] for curve in found.values())
    for axes, split in zip(panels, ("train" if evaluated else "running", "test"), strict=True):
        name = f"{split}_{task.metric}"
        for label, curve in found.items():
            if name in curve["columns"]:
                draw_curve(axes, curve["epoch"], curve["columns"][name], results.labels.index(label))
        said = {"train": "training {}", "running": "training {}, running mean", "test": "test {}"}[split]
        put_name(axes.set_ylabel, said.format(task.metric))
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        scale(axes, task.higher, [column for curve in found.values() if (column := curve["columns"].get(name))])
    put_name(figure.suptitle, task.title)
    draw_legend(figure, results.labels, [label for label, curve in found.items() if curve["epoch"]])
    return figure
