"""The files of its own folder that a Python file imports; its digest includes them."""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..errors import InputError

PACKAGE = Path(__file__).resolve().parents[2]

_read: dict[Path, bytes] = {}  # content of the files that this process may have executed


def imported(path: Path) -> dict[str, Path]:
    """The files in or below its folder that a file imports, directly or indirectly, by module name.

    Nothing is executed: `import` statements are read, including those inside functions. A file with the name of a
    standard library module does not count, because Python would not import it.
    """
    path = path.resolve()
    if PACKAGE in path.parents:
        return {}
    found: dict[str, Path] = {}
    waiting = [("", path)]
    while waiting:
        for name in _names(*waiting.pop()):
            for whole, file in _beside(name, path.parent):
                if whole not in found and file != path:
                    found[whole] = file
                    waiting.append((whole, file))
    return dict(sorted(found.items()))


def refuse_mixtures(path: Path) -> None:
    """Raise InputError if Python would import other code than the files beside `path`.

    It imports each name only once in a process.
    """
    for name, file in imported(path).items():
        there = _known(name) if "." not in name else None
        if there not in (None, file.resolve()):
            raise InputError(f"{path} imports {name}, which may be {file} or {there}: rename one of them")
        content = file.read_bytes()
        if _read.setdefault(file, content) != content:
            raise InputError(f"{file} has changed since this process imported it: start the command again")


def _names(module: str, file: Path) -> Iterator[str]:
    """The names of the modules that a module imports; a package comes before its contents."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for level, base, names in _statements(file.read_bytes()):
        outer = package.split(".")[: len(package.split(".")) + 1 - level] if level else []
        for name in names:
            parts = [part for part in (*outer, *base.split("."), *name.split(".")) if part]
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


@cache
def _statements(content: bytes) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """The import statements of a source: number of leading dots, module, and imported names."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, RecursionError):  # reported when the file is executed
        return ()
    return tuple(
        (getattr(node, "level", 0), getattr(node, "module", None) or "", tuple(alias.name for alias in node.names))
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def _beside(name: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """The module of that name in a folder, if there is one, and its file; all modules of a package for a star.

    Which of them `from package import *` imports depends on the package's `__all__`.
    """
    *outer, last = name.split(".")
    if (outer or [last])[0] in sys.stdlib_module_names:
        return
    place, modules = folder.joinpath(*outer), {last}
    if outer and last == "*":
        modules = {path.stem for path in place.glob("*.py")} | {
            path.parent.name for path in place.glob("*/__init__.py")
        }
    for module in sorted(modules - {"__init__"}):
        files = (place / module / "__init__.py", place / f"{module}.py")
        if (file := next((file for file in files if file.is_file()), None)) is not None:
            yield ".".join((*outer, module)), file


def _known(name: str) -> Path | None:
    """The file from which Python has imported a module, or would import it."""
    if name in sys.modules:
        file = getattr(sys.modules[name], "__file__", None)
    else:
        file = getattr(importlib.util.find_spec(name), "origin", None)
    return Path(file).resolve() if file else None
