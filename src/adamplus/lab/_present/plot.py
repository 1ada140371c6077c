"""One style for all figures: panels, curves with error bands, a legend, and files as PNG and PDF."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .colours import GRID, Style

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
"""Line styles of matplotlib for the dashes of `colours.DASHES`."""
STYLE: dict[Any, Any] = {"font.family": "serif", "mathtext.fontset": "dejavuserif", "font.size": 9, "pdf.fonttype": 42}
"""Fonts of type 42 keep the text of a PDF searchable, and journals accept them."""


@contextmanager
def drawing(folder: Path) -> Iterator[None]:
    """Set the style of figures and create their folder; InputError if matplotlib is not installed."""
    try:
        from matplotlib import rc_context
    except ModuleNotFoundError as error:
        raise InputError(
            f"figures need {error.name}, which is not installed: in your clone, run pip install -e '.[lab]'"
        ) from None
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # a sign of a name; it is drawn as a box
        yield


def save(figure: "Figure", stem: Path, dpi: int = 200) -> list[Path]:
    """Save a figure as PNG and PDF, and return the paths."""
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "pdf")]
    for path in paths:  # without the date, so that equal figures are equal files
        figure.savefig(path, dpi=dpi, metadata={"CreationDate": None} if path.suffix == ".pdf" else None)
    return paths


def new_figure(panels: int) -> tuple["Figure", list["Axes"]]:
    """A figure with this many panels beside each other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.2 + 3.3 * panels, 3.1), layout="constrained")
    axes = list(figure.subplots(1, panels, squeeze=False)[0])
    for one in axes:
        tidy(one)
    return figure, axes


def tidy(axes: "Axes", **grid: Any) -> None:
    """Give axes a light grid below the data, and no frame on top and on the right."""
    axes.grid(color=GRID, **{"linewidth": 0.6, **grid})
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw_curve(axes: "Axes", epochs: list[int], column: dict[str, list[Any]], style: Style) -> None:
    """Draw a contender's mean over the epochs, with a band of its standard error."""
    colour, dash = style
    mean = [math.nan if value is None else value for value in column["mean"]]
    error = [value or 0.0 for value in column["error"]]
    axes.plot(
        epochs, mean, color=colour, linestyle=STROKES[dash], linewidth=1.5, marker="o" if len(mean) == 1 else None
    )
    low, high = ([value + sign * by for value, by in zip(mean, error, strict=True)] for sign in (-1, 1))
    axes.fill_between(epochs, low, high, color=colour, alpha=0.16, linewidth=0)


def scale(axes: "Axes", higher: bool, columns: list[dict[str, list[Any]]]) -> None:
    """Make the vertical axis logarithmic for values that fall by a large factor, so that the end can be read."""
    values = [value for column in columns for value in column["mean"] if value is not None]
    if not higher and values and 0 < 8 * min(values) < max(values):
        axes.set_yscale("log")


def mark_epochs(axes: "Axes") -> None:
    """Label the horizontal axis with whole epochs, even if there is only one."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=(1, 2, 5, 10)))


def draw_legend(figure: "Figure", shown: Mapping[str, Style]) -> None:
    """Draw a legend of contenders with their styles below all panels."""
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=colour, linestyle=STROKES[dash], linewidth=1.5) for colour, dash in shown.values()]
    # Long names keep their start and end: variants of one optimizer differ in their last settings.
    names = [f"{label[:12]}…{label[-19:]}" if len(label) > 32 else label for label in shown]
    width, height = figure.get_size_inches()
    columns = int(width / (0.75 + 0.075 * max(map(len, names), default=1)))  # inches per line sample, and per letter
    rows = math.ceil(len(names) / min(max(1, columns), 4))
    columns = math.ceil(len(names) / max(1, rows)) or 1  # rows of about equal length
    figure.set_size_inches(width, height + 0.18 * rows)
    # matplotlib leaves out names that begin with an underscore, as a file's may
    names = [f"\u200b{name}" for name in names]
    legend = figure.legend(lines, names, loc="outside lower center", ncols=columns, frameon=False, handlelength=3)
    for text in legend.get_texts():
        text.set_parse_math(False)


def put_name(put: Callable[..., Any], text: str) -> None:
    """Set a text that may contain dollar signs, without reading it as mathematics."""
    put(text, parse_math=False)
