"""The paper's theory as code: theorems that give settings and bounds, and problems whose constants are known."""

from . import problems
from ._fast import fast_rate, theorem3
from ._lemma import lemma1
from ._nigt import nigt
from ._settings import Condition, ConditionWarning, Settings
from ._theorems import theorem1, theorem2

__all__ = [
    "Condition",
    "ConditionWarning",
    "Settings",
    "fast_rate",
    "lemma1",
    "nigt",
    "problems",
    "theorem1",
    "theorem2",
    "theorem3",
]
