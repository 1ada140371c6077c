"""What an engine is, and the table of those that are known."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from .._store import Spec
from ..errors import InputError, nearest
from .attempt import EndedRun

ENGINES = {name: f"{__package__}.{name}" for name in ("local", "ray", "torchrun")}
"""Name and module, which has a function `start`."""


class Execute(Protocol):
    """What an engine does, once opened."""

    def __call__(self, specs: Sequence[Spec], done: Callable[[EndedRun], None]) -> None:
        """Train all of them into the store, telling of each that has ended.

        A run whose worker is lost is begun again, from its checkpoint. Raises OSError where the store cannot be
        written to.
        """
        ...


class Engine(Protocol):
    """Workers for the store at that root, which last as long as the context, whatever is raised in it."""

    def __call__(self, root: Path, workers: int | None = None) -> AbstractContextManager[Execute]:
        """Open it; `workers` bounds how many runs are on at a time."""
        ...


def find(name: str) -> Engine:
    """The engine of that name; the packages that it needs are imported here."""
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}: {nearest(name, ENGINES)}")
    return importlib.import_module(ENGINES[name]).start
