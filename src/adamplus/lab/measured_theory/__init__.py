"""The paper's theory, measured: what `adamplus theory` runs."""

from . import tables, variance_report
from .figures import draw_rates
from .measurement import Point
from .methods import METHODS
from .page import stored, write_page
from .reports import Report, check, damaged, report, save
from .settings import settings_of, told
from .theorem_runs import PROVED

__all__ = [
    "METHODS",
    "PROVED",
    "Point",
    "Report",
    "check",
    "damaged",
    "draw_rates",
    "report",
    "save",
    "settings_of",
    "stored",
    "tables",
    "told",
    "variance_report",
    "write_page",
]
