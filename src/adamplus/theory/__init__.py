"""The paper's theory as code: theorems as settings and bounds, probes of their quantities, and test problems."""

from . import problems
from ._accuracy import adaptive_rate, lemma4
from ._fast import fast_rate, theorem3
from ._growth import type1_growth, type2_growth
from ._lemmas import lemma1, lemma1_adaptive, lemma1_contraction, lemma2, lemma3
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
    "adaptive_rate",
    "fast_rate",
    "growth_exponent",
    "lemma1",
    "lemma1_adaptive",
    "lemma1_contraction",
    "lemma2",
    "lemma3",
    "lemma4",
    "nigt",
    "problems",
    "theorem1",
    "theorem2",
    "theorem3",
    "type1_growth",
    "type2_growth",
    "undisturbed",
]
