"""How runs are executed: one line of registration an engine."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from .._errors import InputError, nearest
from .._spec import Spec
from ._attempt import Ended, set_aside

__all__ = ["ENGINES", "Ended", "Execute", "find", "set_aside"]

ENGINES = {name: f"{__name__}.{name}" for name in ("local", "ray")}
"""Name and module, which has a function `execute`."""


class Execute(Protocol):
    """What an engine does."""

    def __call__(
        self, specs: Sequence[Spec], root: Path, done: Callable[[Ended], None], workers: int | None = None
    ) -> None:
        """Train all of them into the store at that root, telling of each that has ended.

        A run whose worker is lost is begun again, from its checkpoint. Raises OSError where the store cannot be
        written to; whatever is raised, no worker is left.
        """
        ...


def find(name: str) -> Execute:
    """The engine of that name; the packages that it needs are imported here."""
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}: {nearest(name, ENGINES)}")
    return importlib.import_module(ENGINES[name]).execute
