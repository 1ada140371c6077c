"""Python files that people bring: loaded by their path."""

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from ._errors import InputError


def load_file(path: Path, what: str) -> ModuleType:
    """The file as a module; an error in it is told with its file and line."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file, which should have {what}")
    spec = importlib.util.spec_from_file_location(f"adamplus_file_{digest(path)[:12]}", path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where torch.compile and pickle look for it
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.resolve()]
        raise InputError(f"{path}, line {lines[-1] if lines else '?'}: {type(error).__name__}: {error}") from error
    return module


def digest(path: Path) -> str:
    """Of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
