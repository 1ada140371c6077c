"""The paper's figures, from stored runs: training and test beside each other, and Σ‖z‖ of the two image models."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from .._errors import InputError
from ..report._charts import curves
from ..report._figures import STYLE, draw_curve, draw_legend, new_figure, save
from ..report._results import Record
from ._experiments import GROWTH, NAMES
from ._growth import growth
from ._stored import Stored


def figures(stored: Sequence[Stored], folder: Path) -> list[Path]:
    """One for every experiment that has runs, and one of Σ‖z‖ of those that have it; the files' paths."""
    try:
        from matplotlib import rc_context
    except ModuleNotFoundError as error:
        raise InputError(f"figures need {error.name}, which is not installed: pip install 'adamplus[lab]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        for one in stored:
            if any(run.epochs for contestant in one.contestants.values() for run in contestant.runs):
                made += _experiment(one, folder)
        images = [one for one in stored if one.experiment.name in GROWTH and "adam-plus" in one.contestants]
        growing = [one for one in images if any(map(_sums, one.contestants["adam-plus"].runs))]
        if growing:
            made += _growth(growing, folder)
    return made


def _experiment(stored: Stored, folder: Path) -> list[Path]:
    figure, panels = new_figure(2)
    found = {name: curves(one.runs) for name, one in stored.contestants.items()}
    names = list(NAMES.values())
    for axes, panel in zip(panels, stored.experiment.panels.values(), strict=True):
        values: list[float] = []
        for name, curve in found.items():
            if panel.column in curve["columns"]:
                draw_curve(axes, curve["epoch"], curve["columns"][panel.column], names.index(NAMES[name]))
                values += [value for value in curve["columns"][panel.column]["mean"] if value is not None]
        axes.set_xlabel("epoch")
        axes.set_ylabel(panel.title)
        # the early epochs of one optimizer would flatten everybody's end
        if not stored.experiment.higher and values and 0 < 4 * min(values) < max(values):
            axes.set_yscale("log")
    figure.suptitle(f"{stored.experiment.title} ({stored.folder})")
    draw_legend(figure, names, [NAMES[name] for name in found])
    return save(figure, folder / f"{stored.folder}-{stored.experiment.name}")


def _growth(stored: Sequence[Stored], folder: Path) -> list[Path]:
    figure, panels = new_figure(len(stored))
    for axes, one in zip(panels, stored, strict=True):
        for run in filter(_sums, one.contestants["adam-plus"].runs):
            steps, sums = zip(*((line["step"], line["norm_sum"]) for line in run.epochs), strict=True)
            (line,) = axes.plot(steps, sums, linewidth=1.5)
            if (found := growth(run.epochs)) is not None:
                axes.axvline(found.knee, color=line.get_color(), linewidth=0.8, linestyle=(0, (3, 2)))
        axes.set_xlabel("iteration")
        axes.set_ylabel(r"$\sum_{i \leq t}\,\Vert z_i \Vert$")
        axes.set_title(one.experiment.title, fontsize=9)
    figure.suptitle(f"Growth in Adam⁺ ({stored[0].folder}); dashed: where it flattens")
    return save(figure, folder / f"{stored[0].folder}-growth")


def _sums(run: Record) -> bool:
    return bool(run.epochs) and all("norm_sum" in line for line in run.epochs)
