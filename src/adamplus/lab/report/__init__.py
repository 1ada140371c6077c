"""What a comparison found, as tables, figures and a page: what `adamplus report` writes."""

from .results import Results, read
from .rows import HEADINGS, Row, cells, rows
from .write import report

__all__ = ["HEADINGS", "Results", "Row", "cells", "read", "report", "rows"]
