"""The data sets of the paper's experiments: where they are, whether they are right, how to get and to read them."""

from . import an4, cifar, fsdd, kaldi, wikitext
from ._download import download
from ._fetch import Patience
from ._root import data_root
from ._set import DataSet, File, Layout, Place, Source, Tree
from ._verify import Checked, verify, where
from .sets import SETS

__all__ = [
    "SETS",
    "Checked",
    "DataSet",
    "File",
    "Layout",
    "Patience",
    "Place",
    "Source",
    "Tree",
    "an4",
    "cifar",
    "data_root",
    "download",
    "fsdd",
    "kaldi",
    "verify",
    "where",
    "wikitext",
]
