"""Optimizers that take part in comparisons."""

from .contender import Contender, LogUniform, UnavailableError
from .muon import muon_with_adamw
from .parsing import label_of, parse, try_out
from .registry import CONTENDERS, find
from .spectral import spectral_plus

__all__ = [
    "CONTENDERS",
    "Contender",
    "LogUniform",
    "UnavailableError",
    "find",
    "label_of",
    "muon_with_adamw",
    "parse",
    "spectral_plus",
    "try_out",
]
