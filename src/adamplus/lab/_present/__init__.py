"""The presentation kit: numbers, statistics, tables, colours, plots, HTML and the console of every report."""

from .colours import COLOURS, DASHES, GREY, GRID, Style, style, styles
from .console import ProgressLines, as_typed, console, say
from .html import Markup, embedded, join, tag
from .numbers import DASH, count, decimal, duration, durations, listed, number, plus_minus, settings, spread, versions
from .plot import STROKES, draw_curve, draw_legend, drawing, mark_epochs, new_figure, put_name, save, scale, tidy
from .statistics import MARGIN, Sensitivity, Summary, ranks, sensitivity, strictly_better, summarize, with_losses
from .tables import csv_table, escape_markdown, latex_table, markdown_table, terminal_table

__all__ = [
    "COLOURS",
    "DASH",
    "DASHES",
    "GREY",
    "GRID",
    "MARGIN",
    "STROKES",
    "Markup",
    "ProgressLines",
    "Sensitivity",
    "Style",
    "Summary",
    "as_typed",
    "console",
    "count",
    "csv_table",
    "decimal",
    "draw_curve",
    "draw_legend",
    "drawing",
    "duration",
    "durations",
    "embedded",
    "escape_markdown",
    "join",
    "latex_table",
    "listed",
    "mark_epochs",
    "markdown_table",
    "new_figure",
    "number",
    "plus_minus",
    "put_name",
    "ranks",
    "save",
    "say",
    "scale",
    "sensitivity",
    "settings",
    "spread",
    "strictly_better",
    "style",
    "styles",
    "summarize",
    "tag",
    "terminal_table",
    "tidy",
    "versions",
    "with_losses",
]
