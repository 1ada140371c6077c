"""The data sets of the paper's experiments: where they are, whether they are right, how to get and to read them."""

from .data_set import DataSet, File, Layout, Place, Source, Tree
from .downloads import download
from .fetching import Patience, Report
from .readers import an4, cifar, fsdd, kaldi, wikitext
from .root import VARIABLE, data_root
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
    "Report",
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
