"""Time, memory and bandwidth of an optimizer's step: what `adamplus bench` runs."""

from ._report import InputError, Measured, Report, Row, load, save
from ._scale import scale
from ._show import show
from ._step import step
from ._table import markdown

__all__ = ["InputError", "Measured", "Report", "Row", "load", "markdown", "save", "scale", "show", "step"]
