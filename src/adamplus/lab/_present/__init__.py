"""The presentation kit: numbers, statistics, tables, colours, plots, HTML and the console of every report."""

from .colours import COLOURS, DASHES, GREY, GRID, style
from .console import console, say
from .html import Markup, embedded, join, tag
from .numbers import DASH, count, decimal, duration, listed, number, plus_minus, settings, versions
from .plot import STROKES, draw_curve, draw_legend, drawing, new_figure, put_name, save, scale, tidy
from .statistics import (
    MARGIN,
    Sensitivity,
    Summary,
    ranks,
    sensitivity,
    strictly_better,
    student,
    summarize,
    with_losses,
)
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
    "Sensitivity",
    "Summary",
    "console",
    "count",
    "csv_table",
    "decimal",
    "draw_curve",
    "draw_legend",
    "drawing",
    "duration",
    "embedded",
    "escape_markdown",
    "join",
    "latex_table",
    "listed",
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
    "strictly_better",
    "student",
    "style",
    "summarize",
    "tag",
    "terminal_table",
    "tidy",
    "versions",
    "with_losses",
]
