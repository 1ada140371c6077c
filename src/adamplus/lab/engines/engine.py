"""The interface of engines, and their registry."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from .._store import Spec
from ..errors import InputError, nearest
from .attempt import EndedRun

ENGINES = {name: f"{__package__}.{name}" for name in ("local", "ray", "torchrun")}
"""Module by name; each has a function `start`, which is an `Engine`."""


class Execute(Protocol):
    """A started engine."""

    def __call__(self, specs: Sequence[Spec], done: Callable[[EndedRun], None]) -> None:
        """Train runs into the store, and call `done` for each that has ended.

        A run whose worker dies continues from its checkpoint in another worker. Raises OSError if the store cannot be
        written.
        """
        ...


class Engine(Protocol):
    """The `start` of an engine: a context with workers that train runs into a store."""

    def __call__(self, root: Path, workers: int | None = None) -> AbstractContextManager[Execute]:
        """Start it for the store at `root`; `workers` limits the number of simultaneous runs."""
        ...


def find(name: str) -> Engine:
    """The engine with this name. Packages that only this engine needs are imported here."""
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}: {nearest(name, ENGINES)}")
    return importlib.import_module(ENGINES[name]).start
