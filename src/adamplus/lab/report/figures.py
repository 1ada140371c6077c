"""Figures as in papers, as PNG and PDF: one file each, and a line here."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .._present import drawing, save
from .._store import plain
from .curve_figures import draw_curves
from .learning_rates import draw_learning_rates
from .results import Results, TaskResults
from .rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[Results, TaskResults, list[Row]], "Figure | None"]] = {
    "curves": draw_curves,
    "learning-rates": draw_learning_rates,
}
"""By the ending of their files' names: what draws one of a task, or nothing where there is nothing to show."""


def figures(results: Results, tables: list[list[Row]], folder: Path) -> list[Path]:
    """Draw all that there is to show of each task; the files' paths."""
    made: list[Path] = []
    with drawing(folder):
        for stem, task, table in zip(_stems(results), results.tasks, tables, strict=True):
            for name, draw in FIGURES.items():
                if (figure := draw(results, task, table)) is not None:
                    made += save(figure, folder / f"{stem}-{name}")
    return made


def _stems(results: Results) -> list[str]:
    """A file name a task; two that differ only in signs that files do not have get numbers."""
    stems = [plain(task.name) for task in results.tasks]
    return [stem if stems.count(stem) == 1 else f"{stem}-{i}" for i, stem in enumerate(stems, 1)]
