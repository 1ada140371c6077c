"""Measurements of the paper's theory, which `adamplus theory` runs."""

from ._methods import METHODS
from .cases import PROBLEMS
from .outputs import load_reports, write_report
from .rates import measure_rates
from .request import RateRequest, Table1Request, VarianceRequest
from .table1 import measure_table1, remove_parts
from .theorems import PROVED, theorem_settings
from .variance import measure_variance

__all__ = [
    "METHODS",
    "PROBLEMS",
    "PROVED",
    "RateRequest",
    "Table1Request",
    "VarianceRequest",
    "load_reports",
    "measure_rates",
    "measure_table1",
    "measure_variance",
    "remove_parts",
    "theorem_settings",
    "write_report",
]
