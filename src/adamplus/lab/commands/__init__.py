"""Commands of `adamplus`, one file each."""

from .bench import bench_app
from .compare import compare
from .data import data_app
from .report import report
from .reproduce import reproduce
from .theory import theory_app

__all__ = ["bench_app", "compare", "data_app", "report", "reproduce", "theory_app"]
