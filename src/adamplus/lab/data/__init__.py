"""Data sets of the paper's experiments: where they are, their digests, downloads and readers."""

from .data_set import VARIABLE, DataSet, File, Layout, Place, Source, Tree, data_root
from .downloads import download
from .fetching import ProgressCallback, RetryPolicy
from .readers import an4, cifar, fsdd, kaldi, novels, wikitext
from .sets import SETS
from .verification import Checked, verify, where

__all__ = [
    "SETS",
    "VARIABLE",
    "Checked",
    "DataSet",
    "File",
    "Layout",
    "Place",
    "ProgressCallback",
    "RetryPolicy",
    "Source",
    "Tree",
    "an4",
    "cifar",
    "data_root",
    "download",
    "fsdd",
    "kaldi",
    "novels",
    "verify",
    "where",
    "wikitext",
]
