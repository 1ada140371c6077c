"""The methods of Table 1, for many runs at once (rules.py), and the settings that they choose from (windows.py)."""

from . import rules
from .rules import BLOCK, Rule, Sampler
from .windows import FINER, METHODS, SHARES, STEPS, Group

__all__ = ["BLOCK", "FINER", "METHODS", "SHARES", "STEPS", "Group", "Rule", "Sampler", "rules"]
