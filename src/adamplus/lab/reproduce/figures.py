"""The paper's figures, from stored runs: training and test beside each other, and Σ‖z‖ of the two image models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._present import GREY, GRID, draw_curve, draw_legend, drawing, mark_epochs, new_figure, save, styles
from ..report import StoredRun, curves
from .experiments import GROWTH, NAMES
from .growth import growth
from .stored_runs import ContenderRuns, Stored

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = dict(zip(NAMES, styles(list(NAMES)), strict=True))
"""Colour and dash of each optimizer."""


def figures(stored: Sequence[Stored], folder: Path) -> list[Path]:
    """Draw one figure for each experiment with runs that ended, and one of Σ‖z‖. Returns the paths of the files."""
    made: list[Path] = []
    with drawing(folder):
        for one in stored:
            if any(map(_shown, one.contenders.values())):
                made += _experiment(one, folder)
        images = [one for one in stored if one.experiment.name in GROWTH and _sums(one)]
        if images:
            made += _growth(images, folder)
    return made


def _experiment(stored: Stored, folder: Path) -> list[Path]:
    figure, panels = new_figure(2)
    found = {name: curves(runs) for name, one in stored.contenders.items() if (runs := _shown(one))}
    tried = {name: one.tried for name, one in stored.contenders.items()}
    names = {
        name: f"{title} (best of {tried[name]})" if tried.get(name, 1) > 1 else title for name, title in NAMES.items()
    }
    for axes, panel in zip(panels, stored.experiment.panels.values(), strict=True):
        _draw(axes, found, panel.column)
        mark_epochs(axes)
        axes.set_ylabel(panel.title)
        if panel.column.endswith("perplexity"):  # the early epochs of one optimizer would flatten all curves' ends
            _logarithmic(axes)
        if panel.column.endswith("accuracy") and (inset := _inset(axes, found, panel.column)) is not None:
            _draw(inset, found, panel.column)
    figure.suptitle(f"{stored.experiment.title} ({stored.folder})")
    draw_legend(figure, {names[name]: STYLES[name] for name in found})
    return save(figure, folder / f"{stored.folder}-{stored.experiment.name}")


def _growth(stored: Sequence[Stored], folder: Path) -> list[Path]:
    figure, panels = new_figure(len(stored))
    colour, _ = STYLES["adam-plus"]
    for axes, one in zip(panels, stored, strict=True):
        for run in _sums(one):
            steps, sums = zip(*((line["step"], line["norm_sum"]) for line in run.epochs), strict=True)
            axes.plot(steps, sums, linewidth=1.5, color=colour, marker="o" if len(steps) == 1 else None)
            if (found := growth(run.epochs)) is not None and found.flattens:
                axes.axvline(found.knee, color=GREY, linewidth=0.8, linestyle=(0, (3, 2)), label="growth falls most")
        for line in axes.get_legend_handles_labels()[0][:1]:  # one legend entry for all seeds
            axes.legend(handles=[line], loc="lower right", frameon=False)
        axes.set_xlabel("iteration")
        axes.set_ylabel(r"$\sum_{i \leq t}\,\Vert z_i \Vert$")
        axes.ticklabel_format(style="sci", scilimits=(-2, 3), useMathText=True)
        axes.set_title(one.experiment.title, fontsize=9)
    figure.suptitle(f"Growth in Adam⁺ ({stored[0].folder})", fontsize=9)
    return save(figure, folder / f"{stored[0].folder}-growth")


def _draw(axes: "Axes", found: Mapping[str, dict[str, Any]], column: str) -> None:
    for name, curve in found.items():
        if column in curve["columns"]:
            draw_curve(axes, curve["epoch"], curve["columns"][column], STYLES[name])


def _inset(axes: "Axes", found: Mapping[str, dict[str, Any]], column: str) -> "Axes | None":
    """Axes for the end of a long run, in an empty corner: a claim may depend on a point or two there."""
    from matplotlib.ticker import MaxNLocator

    last = max(curve["epoch"][-1] for curve in found.values())
    ends = [
        value
        for curve in found.values()
        for epoch, value in zip(curve["epoch"], curve["columns"].get(column, {"mean": []})["mean"], strict=False)
        if epoch >= 0.6 * last and value is not None
    ]
    low, high = axes.get_ylim()
    spread = max(ends, default=0.0) - min(ends, default=0.0)
    if last < 20 or not 0.005 < spread / (high - low) < 0.3:
        return None
    limits = min(ends) - 0.1 * spread, max(ends) + 0.1 * spread
    inset = axes.inset_axes((0.46, 0.1, 0.5, 0.46), xlim=(0.6 * last, last), ylim=limits)
    inset.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    inset.tick_params(labelsize=6.5, length=2)
    inset.grid(color=GRID, linewidth=0.5)
    return inset


def _logarithmic(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    many, some, few = (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5)
    axes.yaxis.set_major_locator(LogLocator(subs=few if high > 10 * low else some if high > 4 * low else many))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _shown(one: ContenderRuns) -> list[StoredRun]:
    """The runs that have ended. The others would bend the end of a mean."""
    return [run for run in one.ended("finished", "diverged") if run.epochs]


def _sums(stored: Stored) -> list[StoredRun]:
    runs = _shown(stored.contenders["adam-plus"]) if "adam-plus" in stored.contenders else []
    return [run for run in runs if all("norm_sum" in line for line in run.epochs)]
