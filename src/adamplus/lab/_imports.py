"""Which files of somebody's own a Python file imports: those that are neither Python's, nor installed, nor ours."""

import ast
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from ._errors import InputError

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = {"site-packages", "dist-packages"}

_known: dict[str, tuple[Path, bytes]] = {}  # the modules that this process has been asked for, as they were then


def imported(path: Path) -> dict[str, Path]:
    """By name, the files of its folder and of its owner's packages that a file imports, and those that these import.

    Nothing is executed: what stands in `import` statements is looked for, inside of functions, too.
    """
    path = path.resolve()
    if PACKAGE in path.parents:
        return {}
    found: dict[str, Path] = {}
    waiting = [("", path)]
    while waiting:
        for name in _names(*waiting.pop()):
            if name not in found and (file := _file(name, path.parent)) not in (None, path):
                found[name] = file
                waiting.append((name, file))
    return dict(sorted(found.items()))


def refuse_mixtures(path: Path) -> None:
    """Raise where a file would not get what is on the disk now: a process has one module of a name, read once."""
    folder = path.resolve().parent
    for name in _names("", path):
        beside = [file for file in (folder / name / "__init__.py", folder / f"{name}.py") if file.is_file()]
        there = getattr(sys.modules.get(name), "__file__", None)
        if beside and there is not None and Path(there).resolve() != beside[0]:
            raise InputError(f"{path} imports {name}, which is {beside[0]} and {there}: rename one of them")
    for name, file in imported(path).items():
        before, content = _known.setdefault(name, (file, file.read_bytes()))
        if before != file:
            raise InputError(f"{path} imports {name}, which is {file} and {before}: rename one of them")
        if content != file.read_bytes():
            raise InputError(f"{file} has changed since this process has read it: start anew")


def _names(module: str, file: Path) -> Iterator[str]:
    """What a module imports, each package before what is in it."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for level, base, names in _statements(file.read_bytes()):
        outer = package.split(".")[: len(package.split(".")) + 1 - level] if level else []
        for name in names:
            parts = [part for part in (*outer, *base.split("."), *name.split(".")) if part]
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


@lru_cache(maxsize=1024)
def _statements(content: bytes) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """The import statements of a file: dots, where from, and what."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):  # which is told where it is executed
        return ()
    return tuple(
        (getattr(node, "level", 0), getattr(node, "module", None) or "", tuple(alias.name for alias in node.names))
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def _file(name: str, folder: Path) -> Path | None:
    """The file of somebody's own module."""
    if name in sys.modules:
        origin = getattr(sys.modules[name], "__file__", None)
    else:
        origin = getattr(_spec(name, folder), "origin", None)
    if origin is None or not origin.endswith(".py"):
        return None
    file = Path(origin).resolve()
    standard = {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")}
    is_own = not (PACKAGE in file.parents or standard & set(file.parents) or INSTALLED & set(file.parts))
    return file if is_own else None


def _spec(name: str, folder: Path) -> ModuleSpec | None:
    outer, _, _ = name.rpartition(".")
    if not outer:
        return PathFinder.find_spec(name, [str(folder)]) or importlib.util.find_spec(name)
    package = _spec(outer, folder)
    if package is None or package.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, list(package.submodule_search_locations))
