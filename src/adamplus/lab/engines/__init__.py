"""Engines execute runs: in processes of this machine, on a Ray cluster, or under torchrun."""

from . import torchrun
from .attempt import EndedRun, set_aside
from .engine import ENGINES, Engine, Execute, find

__all__ = ["ENGINES", "EndedRun", "Engine", "Execute", "find", "set_aside", "torchrun"]
