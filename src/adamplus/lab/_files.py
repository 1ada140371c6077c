"""Python files that people bring: loaded by their path."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from ._errors import InputError


def load_file(path: Path, what: str) -> ModuleType:
    """The file as a module; an error in it is told with its file and line."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file, which should have {what}")
    spec = importlib.util.spec_from_file_location(f"adamplus_file_{digest(path)[:12]}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where torch.compile and pickle look for it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        trace, line = error.__traceback__, "?"
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == str(path):
                line = trace.tb_lineno
            trace = trace.tb_next
        raise InputError(f"{path}, line {line}: {type(error).__name__}: {error}") from error
    return module


def digest(path: Path) -> str:
    """Of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
