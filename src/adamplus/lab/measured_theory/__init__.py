"""Measurements of the paper's theory, which `adamplus theory` runs."""

from .methods import METHODS
from .outputs import load_reports, write_report
from .rates import measure_rates
from .request import RateRequest, VarianceRequest
from .theorems import PROVED, theorem_settings
from .variance import measure_variance

__all__ = [
    "METHODS",
    "PROVED",
    "RateRequest",
    "VarianceRequest",
    "load_reports",
    "measure_rates",
    "measure_variance",
    "theorem_settings",
    "write_report",
]
