"""The data sets of the paper's experiments: where they are, whether they are right, how to get and to read them."""

from .data_set import VARIABLE, DataSet, File, Layout, Place, Source, Tree, data_root
from .downloads import download
from .fetching import Patience, ProgressCallback
from .readers import an4, cifar, fsdd, kaldi, wikitext
from .sets import SETS
from .verification import Checked, verify, where

__all__ = [
    "SETS",
    "VARIABLE",
    "Checked",
    "DataSet",
    "File",
    "Layout",
    "Patience",
    "Place",
    "ProgressCallback",
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
