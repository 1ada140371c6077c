"""Which geometry each parameter of a model gets, and why.

rules  the rule for a parameter, by its module and its name
heads  the output heads of a model
table  the routing of a model as text
"""

from .heads import find_heads, heads_named
from .rules import LORA, Rule, Site, UnroutedError, choose_rule, is_embedding, is_matrix, pattern_of, sites_of
from .table import Route, table

__all__ = [
    "LORA",
    "Route",
    "Rule",
    "Site",
    "UnroutedError",
    "choose_rule",
    "find_heads",
    "heads_named",
    "is_embedding",
    "is_matrix",
    "pattern_of",
    "sites_of",
    "table",
]
