"""What a comparison found, as tables, figures and a page: what `adamplus report` writes."""

from .charts import curves
from .results import Record, Results, TaskResults, read, read_run
from .rows import HEADINGS, Row, cells, rows
from .summary import show, tell
from .write import report

__all__ = [
    "HEADINGS",
    "Record",
    "Results",
    "Row",
    "TaskResults",
    "cells",
    "curves",
    "read",
    "read_run",
    "report",
    "rows",
    "show",
    "tell",
]
