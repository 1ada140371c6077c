"""The tasks that comparisons know: one line of registration a file."""

import hashlib
import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .._store import digest, load_file
from ..errors import InputError, nearest
from .digits import Digits
from .task import Moment, Split, Task

__all__ = ["EMBEDDED", "TASKS", "Digits", "Moment", "Split", "Task", "about", "describe", "find"]

EMBEDDED = ("digits", "pydoc", "tones")
"""Those that need no download."""
EXPERIMENTS = ("cifar10", "cifar100", "wikitext2", "an4", "swb300")
"""The paper's, each also with the ending `-paper`: nothing is held out to choose by, and Adam's rates stay."""
BEYOND = ("wikitext2-gpt",)
"""Past the paper."""
TASKS = {
    name: f"{__name__}.{name.replace('-', '_')}"
    for name in (*EMBEDDED, *(f"{name}{ending}" for name in EXPERIMENTS for ending in ("", "-paper")), *BEYOND)
}
"""All that are known: name and module."""
READERS = ("cifar", "batches", "pickles", "wikitext", "text", "an4", "kaldi")
SHARED = ("schedules.py", *(f"../data/readers/{name}.py" for name in READERS), "../data/alignment/*.py")
"""What decides numbers of experiments beside their own files, the models and the loop."""


def find(name: str) -> tuple[Task, str]:
    """The task of that name, or in that file; and the digest of the file that it is in."""
    if name.endswith(".py"):
        return _task_of(load_file(Path(name), "a task"), name), digest(Path(name))
    if name not in TASKS:
        hint = "; a file of your own ends in .py" if "/" in name else ""
        raise InputError(f"unknown task {name!r}: {nearest(name, TASKS)}{hint}")
    task = _task_of(importlib.import_module(TASKS[name]), name)
    return task, _digest(type(task), () if name in EMBEDDED else SHARED)


def _digest(kind: type[Task], shared: tuple[str, ...]) -> str:
    """Of the file that a registered task is in, of those of the classes that it is made from, and of shared ones."""
    kinds = [one for one in kind.__mro__ if issubclass(one, Task) and one is not Task]
    files = [Path(inspect.getfile(one)) for one in kinds]
    files += [path for pattern in shared for path in sorted(Path(__file__).parent.glob(pattern))]
    digests = [digest(path) for path in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def about(task: Task, data: Mapping[str, Split]) -> dict[str, Any]:
    """What a run's settings.json says of its task; of its rows, as far as they are known."""
    told = {name: getattr(task, name) for name in ("metric", "better", "target", "batch", "epochs")}
    return {"description": describe(task), **told, "rows": {name: len(x) for name, (x, _) in data.items()}}


def describe(task: Task) -> str:
    """What a task says of itself: the first line of its class, or of its file."""
    text = type(task).__doc__ if "__doc__" in vars(type(task)) else None
    text = text or inspect.getmodule(type(task)).__doc__ or ""
    return text.strip().partition("\n")[0]


def _task_of(module: ModuleType, name: str) -> Task:
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Task) and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise InputError(
            f"{name}: it has {len(found) or 'no'} classes of Task, and one is needed: see docs/extending.md"
        )
    (kind,) = found
    if missing := sorted(kind.__abstractmethods__):
        raise InputError(f"{name}: {kind.__name__} lacks {', '.join(f'{m}()' for m in missing)}: see docs/extending.md")
    return kind()
