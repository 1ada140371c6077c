"""The data sets that are known: one file a set, and one line of registration."""

from ...errors import InputError, nearest
from ..data_set import DataSet
from .an4 import AN4
from .cifar10 import CIFAR10
from .cifar100 import CIFAR100
from .fsdd import FSDD
from .swb300 import SWB300
from .wikitext2 import WIKITEXT2

SETS: dict[str, DataSet] = {one.name: one for one in (CIFAR10, CIFAR100, WIKITEXT2, AN4, FSDD, SWB300)}
"""By the names that commands know them by."""


def find(name: str) -> DataSet:
    """The set of that name."""
    if name not in SETS:
        raise InputError(f"unknown data set {name!r}: {nearest(name, SETS)}")
    return SETS[name]
