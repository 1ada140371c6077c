"""Tasks that optimizers are compared on."""

from .digits import Digits
from .registry import EMBEDDED, TASKS, about, describe, find
from .task import Moment, Split, Task

__all__ = ["EMBEDDED", "TASKS", "Digits", "Moment", "Split", "Task", "about", "describe", "find"]
