"""What is kept of runs: folders, specifications, provenance and digests of code."""

from .event_files import Events
from .files import replace_file, write_json
from .provenance import certificate
from .spec import Spec, plain
from .store import CHECKPOINT, COMPARISON, END, LAST_WORDS, METRICS, SETTINGS, CorruptError, Run, Store
from .user_code import digest, load_file, own_digest

__all__ = [
    "CHECKPOINT",
    "COMPARISON",
    "END",
    "LAST_WORDS",
    "METRICS",
    "SETTINGS",
    "CorruptError",
    "Events",
    "Run",
    "Spec",
    "Store",
    "certificate",
    "digest",
    "load_file",
    "own_digest",
    "plain",
    "replace_file",
    "write_json",
]
