"""Which files of its own folder a Python file imports: they are as much a part of what it does as itself."""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..errors import InputError

PACKAGE = Path(__file__).resolve().parents[2]

_read: dict[Path, bytes] = {}  # what this process may have executed of them


def imported(path: Path) -> dict[str, Path]:
    """By name, the files of its folder and below that a file imports, and those that these import.

    Nothing is executed: what stands in `import` statements is looked for, inside of functions, too. A file that has the
    name of a module of Python's own is none of them.
    """
    path = path.resolve()
    if PACKAGE in path.parents:
        return {}
    found: dict[str, Path] = {}
    waiting = [("", path)]
    while waiting:
        for name in _names(*waiting.pop()):
            file = _beside(name, path.parent)
            if name not in found and file is not None and file != path:
                found[name] = file
                waiting.append((name, file))
    return dict(sorted(found.items()))


def refuse_mixtures(path: Path) -> None:
    """Raise where Python would not give a file what lies beside it: a process has one module of a name, read once."""
    for name, file in imported(path).items():
        there = _known(name) if "." not in name else None
        if there not in (None, file.resolve()):
            raise InputError(f"{path} imports {name}, which is {file} and {there}: rename one of them")
        content = file.read_bytes()
        if _read.setdefault(file, content) != content:
            raise InputError(f"{file} has changed since this process has read it: start anew")


def _names(module: str, file: Path) -> Iterator[str]:
    """What a module imports, each package before what is in it."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for level, base, names in _statements(file.read_bytes()):
        outer = package.split(".")[: len(package.split(".")) + 1 - level] if level else []
        for name in names:
            parts = [part for part in (*outer, *base.split("."), *name.split(".")) if part]
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


@cache
def _statements(content: bytes) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """The import statements of a file: dots, where from, and what."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, RecursionError):  # which is told where it is executed
        return ()
    return tuple(
        (getattr(node, "level", 0), getattr(node, "module", None) or "", tuple(alias.name for alias in node.names))
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def _beside(name: str, folder: Path) -> Path | None:
    """The file of a module in a folder."""
    *outer, last = name.split(".")
    if (outer or [last])[0] in sys.stdlib_module_names:
        return None
    place = folder.joinpath(*outer)
    files = (place / last / "__init__.py", place / f"{last}.py")
    return next((file for file in files if file.is_file()), None)


def _known(name: str) -> Path | None:
    """The file that Python has, or would take, for a module."""
    if name in sys.modules:
        file = getattr(sys.modules[name], "__file__", None)
    else:
        file = getattr(importlib.util.find_spec(name), "origin", None)
    return Path(file).resolve() if file else None
