"""Comparisons: what is requested, planned, searched and reused."""

from .comparison import Outcome, compare
from .options import check_least, command_options, option, split_list, takes
from .plan import Plan, plan
from .request import Request
from .search import Choice, middle

__all__ = [
    "Choice",
    "Outcome",
    "Plan",
    "Request",
    "check_least",
    "command_options",
    "compare",
    "middle",
    "option",
    "plan",
    "split_list",
    "takes",
]
