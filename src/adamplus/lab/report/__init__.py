"""The report of a comparison: tables, figures and a page, as `adamplus report` writes them."""

from .charts import curves
from .results import Results, StoredRun, TaskResults, read, read_run
from .rows import ContenderRow, rows
from .write import print_report, report, show

__all__ = [
    "ContenderRow",
    "Results",
    "StoredRun",
    "TaskResults",
    "curves",
    "print_report",
    "read",
    "read_run",
    "report",
    "rows",
    "show",
]
