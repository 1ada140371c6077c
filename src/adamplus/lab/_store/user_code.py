"""Python files that people bring: loaded by their path."""

import ast
import hashlib
import importlib.util
import sys
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from ..errors import InputError
from .imports import imported, refuse_mixtures

ROOMS = ("optim", "lab/_run", "lab/optimizers", "lab/models")
"""The folders of this package that decide a run's numbers, whatever its task is."""


def load_file(path: Path, what: str) -> ModuleType:
    """The file as a module; an error in it is told with its file and line."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file, which should have {what}")
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # what lies beside it can be imported; last, or it might hide what others import
    refuse_mixtures(path)
    name = "adamplus_file_" + hashlib.sha256(str(path.resolve()).encode() + path.read_bytes()).hexdigest()[:16]
    if name in sys.modules:  # once, or what a file caches would be made anew for every run
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where torch.compile and pickle look for it
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        raise InputError(f"{path}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        del sys.modules[name]
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.resolve()]
        raise InputError(f"{path}, line {lines[-1] if lines else '?'}: {type(error).__name__}: {error}") from error
    return module


def digest(path: Path) -> str:
    """Of what a file and the files of its folder that it imports do.

    That of Python stays where words change, or runs would be lost by a comment.
    """
    whole = hashlib.sha256(_deeds(path))
    for name, file in imported(path).items():
        whole.update(name.encode() + _deeds(file))
    return whole.hexdigest()


def _deeds(path: Path) -> bytes:
    """The content; of Python, the code without comments, docstrings and layout."""
    content = path.read_bytes()
    return content if path.suffix != ".py" or b"__doc__" in content else _code(content)


@cache
def _code(content: bytes) -> bytes:
    try:
        return ast.unparse(_Wordless().visit(ast.parse(content))).encode()
    except (SyntaxError, ValueError, RecursionError):  # the last for a table of thousands of terms
        return content


class _Wordless(ast.NodeTransformer):
    """Leaves out statements that are strings: docstrings, and those after attributes."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node


@cache
def own_digest() -> str:
    """Digest of torch's version and of the code in `ROOMS`."""
    package = Path(__file__).parents[2]
    whole = hashlib.sha256(torch.__version__.encode())
    for room in ROOMS:
        for file in sorted(file for file in (package / room).rglob("*") if file.suffix in (".py", ".c")):
            whole.update(file.relative_to(package).as_posix().encode() + _deeds(file))
    return whole.hexdigest()
