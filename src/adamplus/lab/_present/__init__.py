"""Numbers, statistics, tables, plots and pages, as every report shows them."""

from . import markdown
from .colours import COLOURS, DASHES, style
from .console import console, say
from .html import Markup, embedded, join, tag
from .markdown import table
from .numbers import DASH, listed, number, plus_minus, seconds, settings
from .plot import STROKES, draw_curve, draw_legend, drawing, new_figure, put_name, save, scale
from .statistics import MARGIN, Sensitivity, Summary, ranks, sensitivity, strictly_better, summarize, with_losses

__all__ = [
    "COLOURS",
    "DASH",
    "DASHES",
    "MARGIN",
    "STROKES",
    "Markup",
    "Sensitivity",
    "Summary",
    "console",
    "draw_curve",
    "draw_legend",
    "drawing",
    "embedded",
    "join",
    "listed",
    "markdown",
    "new_figure",
    "number",
    "plus_minus",
    "put_name",
    "ranks",
    "save",
    "say",
    "scale",
    "seconds",
    "sensitivity",
    "settings",
    "strictly_better",
    "style",
    "summarize",
    "table",
    "tag",
    "with_losses",
]
