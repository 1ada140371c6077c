"""How runs are executed: one line of registration an engine."""

from . import torchrun
from .attempt import Ended, set_aside
from .engine import ENGINES, Engine, Execute, find

__all__ = ["ENGINES", "Ended", "Engine", "Execute", "find", "set_aside", "torchrun"]
