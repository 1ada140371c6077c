"""Digests of code: they change with what the code does, and not with its comments, docstrings or layout."""

import ast
import hashlib
from functools import cache
from pathlib import Path

import torch

from .imports import imported

ROOMS = ("optim", "lab/_run", "lab/models")
"""The folders of this package that decide a run's numbers, whatever its task and its optimizer are."""


def digest(path: Path) -> str:
    """Digest of a file and of the files of its folder that it imports.

    Python is digested without comments and docstrings: a reworded comment must not invalidate stored runs.
    """
    whole = hashlib.sha256(_content(path))
    for name, file in imported(path).items():
        whole.update(name.encode() + _content(file))
    return whole.hexdigest()


@cache
def own_digest() -> str:
    """Digest of torch's version and of the code in `ROOMS`."""
    package = Path(__file__).parents[2]
    whole = hashlib.sha256(torch.__version__.encode())
    for room in ROOMS:
        for file in sorted(file for file in (package / room).rglob("*") if file.suffix in (".py", ".c")):
            whole.update(file.relative_to(package).as_posix().encode() + _content(file))
    return whole.hexdigest()


def _content(path: Path) -> bytes:
    """The part of a file that is digested: all of it, or Python code without comments, unless it reads `__doc__`."""
    content = path.read_bytes()
    return content if path.suffix != ".py" or b"__doc__" in content else _code_without_comments(content)


@cache
def _code_without_comments(source: bytes) -> bytes:
    try:
        return ast.unparse(_StripDocstrings().visit(ast.parse(source))).encode()
    except (SyntaxError, ValueError, RecursionError):  # RecursionError: a table of thousands of terms
        return source


class _StripDocstrings(ast.NodeTransformer):
    """Removes statements that are strings: docstrings, and those after attributes."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node
