"""The tasks that comparisons know by name: one line of registration for each."""

import hashlib
import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .._store import digest, load_file
from ..errors import InputError, nearest
from .schedules import Experiment
from .task import Split, Task

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("digits.Digits", {}),
    "pydoc": ("pydoc.Pydoc", {}),
    "tones": ("tones.Tones", {}),
    "cifar10": ("cifar.Cifar10", {}),
    "cifar10-paper": ("cifar.Cifar10", {"paper": True}),
    "cifar100": ("cifar.Cifar100", {}),
    "cifar100-paper": ("cifar.Cifar100", {"paper": True}),
    "wikitext2": ("wikitext2.Wikitext2", {}),
    "wikitext2-paper": ("wikitext2.Wikitext2", {"paper": True}),
    "an4": ("an4.An4", {}),
    "an4-paper": ("an4.An4", {"paper": True}),
    "swb300": ("swb300.Swb300", {}),
    "swb300-paper": ("swb300.Swb300", {"paper": True}),
    "cifar10-toy": ("toys.ToyCifar10", {"paper": True}),
    "cifar100-toy": ("toys.ToyCifar100", {"paper": True}),
    "wikitext2-toy": ("toys.ToyWikitext2", {"paper": True}),
    "an4-toy": ("toys.ToyAn4", {"paper": True}),
    "swb300-toy": ("toys.ToySwb300", {"paper": True}),
    "cifar10-paper-decayed-adam": ("decayed.DecayedCifar10", {"paper": True}),
    "cifar100-paper-decayed-adam": ("decayed.DecayedCifar100", {"paper": True}),
    "wikitext2-paper-decayed-adam": ("decayed.DecayedWikitext2", {"paper": True}),
    "an4-paper-decayed-adam": ("decayed.DecayedAn4", {"paper": True}),
    "swb300-paper-decayed-adam": ("decayed.DecayedSwb300", {"paper": True}),
    "wikitext2-gpt": ("gpt.Wikitext2GPT", {}),
    "novels-gpt": ("novels.NovelsGPT", {}),
    "gpt2-124m": ("novels.GPT2", {}),
}
"""For each name the module and class, and the keyword arguments of the class."""
EMBEDDED = ("digits", "pydoc", "tones")
"""Names of the tasks that need no download."""
DATA = Path(__file__).parents[1] / "data"
SHARED = (DATA / "readers", DATA / "alignment")
"""Folders whose code decides the numbers of every task that reads a downloaded data set."""


def find(name: str) -> tuple[Task, str]:
    """The task of that name, or the task in that file, with the digest of the code that defines it."""
    if name.endswith(".py"):
        return _only_task(load_file(Path(name), "a task"), name), digest(Path(name))
    if name not in TASKS:
        hint = "; the name of a file must end in .py" if "/" in name else ""
        raise InputError(f"unknown task {name!r}: {nearest(name, TASKS)}{hint}")
    place, arguments = TASKS[name]
    module, _, kind = place.partition(".")
    task: Task = getattr(importlib.import_module(f".{module}", __package__), kind)(**arguments)
    return task, _digest(type(task), arguments, () if name in EMBEDDED else SHARED)


def _digest(kind: type[Task], arguments: Mapping[str, Any], shared: tuple[Path, ...]) -> str:
    """Digest of a task's class and arguments, the files of its classes, and those in shared folders."""
    classes = [one for one in kind.__mro__ if issubclass(one, Task) and one is not Task]
    files = dict.fromkeys(Path(inspect.getfile(one)) for one in classes)
    files |= dict.fromkeys(path for folder in shared for path in sorted(folder.glob("*.py")))
    parts = [kind.__name__, repr(sorted(arguments.items())), *map(digest, files)]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def about(task: Task, data: Mapping[str, Split]) -> dict[str, Any]:
    """The entry "task" of a run's settings.json; `data` may be empty if it was not read."""
    names = ("metric", "better", "target", "batch", "epochs", "epochs_per_pass")
    attributes = {name: getattr(task, name) for name in names}
    return {"description": describe(task), **attributes, "rows": {name: len(x) for name, (x, _) in data.items()}}


def describe(task: Task) -> str:
    """One line about a task: the first line of its class's docstring, or of its file's."""
    if isinstance(task, Experiment) and task.paper:
        return task.paper_description
    text = type(task).__doc__ if "__doc__" in vars(type(task)) else None
    text = text or inspect.getmodule(type(task)).__doc__ or ""
    return text.strip().partition("\n")[0]


def _only_task(module: ModuleType, name: str) -> Task:
    """The one task that a user's file defines."""
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Task) and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise InputError(f"{name} must define exactly one subclass of Task, got {len(found)}: see docs/extending.md")
    (kind,) = found
    if missing := sorted(kind.__abstractmethods__):
        methods = ", ".join(f"{method}()" for method in missing)
        raise InputError(f"{name}: {kind.__name__} must define {methods}: see docs/extending.md")
    return kind()
