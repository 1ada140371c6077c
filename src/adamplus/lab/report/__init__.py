"""What a comparison found, as tables, figures and a page: what `adamplus report` writes."""

from ._report import report
from ._results import Results, read
from ._tables import HEADINGS, Row, cells, rows

__all__ = ["HEADINGS", "Results", "Row", "cells", "read", "report", "rows"]
