"""Python files that people bring: loaded by their path."""

import ast
import hashlib
import importlib.util
import io
import sys
import tokenize
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import torch

from ._errors import InputError

LOOP = ("_learner", "_optimizing", "_evaluation", "_meter", "_capture", "_repeating", "augment")
"""The files of the loop that trains."""


def load_file(path: Path, what: str) -> ModuleType:
    """The file as a module; an error in it is told with its file and line."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file, which should have {what}")
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
    """Of what a file does: that of Python stays where words change, or runs would be lost by a comment."""
    return hashlib.sha256(_deeds(path)).hexdigest()


def _deeds(path: Path) -> bytes:
    """The content; of Python, the tokens without comments, docstrings and layout."""
    content = path.read_bytes()
    if path.suffix != ".py" or b"__doc__" in content:
        return content
    try:
        text = content.decode()
        words = {(one.lineno, one.col_offset) for one in ast.walk(ast.parse(text)) if _is_text(one)}
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return content
    lines, found, begun, inside, said = text.splitlines(keepends=True), [], (0, 0), 0, False
    for one in tokens:
        kind = tokenize.tok_name[one.type]
        if kind.endswith("STRING_START"):  # of an f-string, which newer Pythons cut into pieces
            begun, inside = one.start if inside == 0 else begun, inside + 1
        elif kind.endswith("STRING_END"):
            inside -= 1
            found += [] if inside else [_between(lines, begun, one.end)]
        elif inside or kind in ("COMMENT", "NL") or (kind == "NEWLINE" and said):
            said = said and kind != "NEWLINE"
        elif kind == "STRING" and one.start in words:
            said = True  # and so is the end of its line
        else:
            found.append(kind if kind in ("INDENT", "DEDENT", "NEWLINE") else one.string)
            said = False
    return "\0".join(found).encode()


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Whether it is a statement that is a string: a docstring, or one after an attribute."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _between(lines: list[str], begin: tuple[int, int], end: tuple[int, int]) -> str:
    """The text from one place (line, column) to another."""
    if begin[0] == end[0]:
        return lines[begin[0] - 1][begin[1] : end[1]]
    middle = lines[begin[0] : end[0] - 1]
    return "".join([lines[begin[0] - 1][begin[1] :], *middle, lines[end[0] - 1][: end[1]]])


@cache
def own_digest() -> str:
    """Of what decides numbers beside a run's own files: torch, the optimizers of this package, and the loop."""
    package = Path(__file__).parents[1]
    files = [*package.glob("optim/*.[pc]*"), *package.glob("lab/optimizers/*.py"), *package.glob("lab/models/*.py")]
    files += [package / "lab" / f"{name}.py" for name in LOOP]
    whole = hashlib.sha256(torch.__version__.encode())
    for file in sorted(file for file in files if file.suffix in (".py", ".c")):
        whole.update(file.name.encode() + _deeds(file))
    return whole.hexdigest()
