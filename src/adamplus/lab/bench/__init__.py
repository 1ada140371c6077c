"""Time, memory and bandwidth of an optimizer's step: what `adamplus bench` runs."""

from .report import InputError, Measured, Report, Row, load, save
from .scale import scale
from .show import show
from .step import step
from .table import markdown

__all__ = ["InputError", "Measured", "Report", "Row", "load", "markdown", "save", "scale", "show", "step"]
