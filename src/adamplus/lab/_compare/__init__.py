"""Comparisons: what is asked for, planned, searched and reused."""

from .comparison import PAPER, Outcome, compare
from .plan import Plan, plan, split
from .search import Choice, middle

__all__ = ["PAPER", "Choice", "Outcome", "Plan", "compare", "middle", "plan", "split"]
