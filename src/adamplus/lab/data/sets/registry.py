"""The data sets that are known by name: one line of registration for each."""

from ...errors import InputError, nearest
from ..data_set import DataSet
from .an4 import AN4
from .cifar10 import CIFAR10
from .cifar100 import CIFAR100
from .fsdd import FSDD
from .novels import NOVELS
from .swb300 import SWB300
from .wikitext2 import WIKITEXT2

SETS: dict[str, DataSet] = {one.name: one for one in (CIFAR10, CIFAR100, WIKITEXT2, NOVELS, AN4, FSDD, SWB300)}
"""All known data sets, by name."""


def find(name: str) -> DataSet:
    """The data set of a name."""
    if name not in SETS:
        raise InputError(f"unknown data set {name!r}: {nearest(name, SETS)}")
    return SETS[name]
