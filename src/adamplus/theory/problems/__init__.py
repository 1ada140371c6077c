"""Noisy nonconvex problems with known constants, evaluated for many runs at a time."""

from ._double_well import DoubleWell
from ._logistic import Logistic
from ._network import Network
from ._problem import Problem
from ._valley import Valley

__all__ = ["DoubleWell", "Logistic", "Network", "Problem", "Valley"]
