"""The paper's theory, measured: what `adamplus theory` runs."""

from . import tables, variance, variance_report
from .figures import draw_rates
from .measurement import Measurement
from .methods import METHODS
from .outputs import damaged, save, stored, write_page
from .rates import check, report
from .theorems import PROVED, describe, settings_of

__all__ = [
    "METHODS",
    "PROVED",
    "Measurement",
    "check",
    "damaged",
    "describe",
    "draw_rates",
    "report",
    "save",
    "settings_of",
    "stored",
    "tables",
    "variance",
    "variance_report",
    "write_page",
]
