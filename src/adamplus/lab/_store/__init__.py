"""The run store: folders of runs (store.py), specifications, atomic files, provenance, digests of code."""

from .checksums import parse_json, read_json
from .code_digest import digest, own_digest
from .event_files import Events
from .files import replace_file, write_json
from .imports import imported
from .provenance import certificate
from .spec import Spec, plain
from .store import CHECKPOINT, COMPARISON, DEVICE_LOST, END, METRICS, SETTINGS, CorruptError, Run, Store
from .user_code import load_file

__all__ = [
    "CHECKPOINT",
    "COMPARISON",
    "DEVICE_LOST",
    "END",
    "METRICS",
    "SETTINGS",
    "CorruptError",
    "Events",
    "Run",
    "Spec",
    "Store",
    "certificate",
    "digest",
    "imported",
    "load_file",
    "own_digest",
    "parse_json",
    "plain",
    "read_json",
    "replace_file",
    "write_json",
]
