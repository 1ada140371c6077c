"""The known data sets, one file for each."""

from .registry import SETS, find
from .swb300 import SPLITS, STREAMS

__all__ = ["SETS", "SPLITS", "STREAMS", "find"]
