"""The paper's theory as code: theorems as settings and bounds, probes of their quantities, and test problems."""

from . import problems
from ._fast import fast_rate, theorem3
from ._lemma import lemma1
from ._nigt import nigt
from ._probes import Errors, GrowthProbe, RandomIterate, VarianceProbe, growth_exponent, undisturbed
from ._settings import Condition, ConditionWarning, Settings
from ._theorems import theorem1, theorem2

__all__ = [
    "Condition",
    "ConditionWarning",
    "Errors",
    "GrowthProbe",
    "RandomIterate",
    "Settings",
    "VarianceProbe",
    "fast_rate",
    "growth_exponent",
    "lemma1",
    "nigt",
    "problems",
    "theorem1",
    "theorem2",
    "theorem3",
    "undisturbed",
]
