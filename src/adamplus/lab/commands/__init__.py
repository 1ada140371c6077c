"""Commands of `adamplus`, one file each."""

from .bench import bench_app
from .compare import COMPARE_EXAMPLES, compare
from .data import data_app
from .main import MAIN_EXAMPLES, main
from .report import REPORT_EXAMPLES, report
from .reproduce import REPRODUCE_EXAMPLES, reproduce
from .theory import theory_app

__all__ = [
    "COMPARE_EXAMPLES",
    "MAIN_EXAMPLES",
    "REPORT_EXAMPLES",
    "REPRODUCE_EXAMPLES",
    "bench_app",
    "compare",
    "data_app",
    "main",
    "report",
    "reproduce",
    "theory_app",
]
