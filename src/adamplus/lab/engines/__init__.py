"""How runs are executed: one line of registration an engine."""

from . import torchrun
from .attempt import EndedRun, set_aside
from .engine import ENGINES, Engine, Execute, find

__all__ = ["ENGINES", "EndedRun", "Engine", "Execute", "find", "set_aside", "torchrun"]
