"""Optimizers that take part in comparisons."""

from .contender import Contender, LogUniform, UnavailableError
from .muon import muon_with_adamw
from .parsing import label_of, parse, try_out
from .registry import CONTENDERS, find

__all__ = [
    "CONTENDERS",
    "Contender",
    "LogUniform",
    "UnavailableError",
    "find",
    "label_of",
    "muon_with_adamw",
    "parse",
    "try_out",
]
