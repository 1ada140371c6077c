"""Loading of the user's Python files, which hold tasks and optimizers."""

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from ..errors import InputError
from .imports import refuse_mixtures


def load_file(path: Path, what: str) -> ModuleType:
    """Import a file as a module; `what` names its content for error messages.

    Raises InputError with the file and line of an error in it.
    """
    try:
        is_file = path.is_file()
    except OSError as error:  # of a name that is too long
        raise InputError(f"{path}: {error.strerror}; it should be a file that defines {what}") from None
    if not is_file:
        raise InputError(f"{path}: there is no such file; it should define {what}")
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # so that it can import its neighbours; last, so that it hides no other module
    refuse_mixtures(path)
    name = "adamplus_file_" + hashlib.sha256(str(path.resolve()).encode() + path.read_bytes()).hexdigest()[:16]
    if name in sys.modules:  # execute a file once, so that what it caches is kept for later runs
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # torch.compile and pickle look it up there
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        raise InputError(f"{path}, line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.resolve()]
        raise InputError(f"{path}, line {lines[-1] if lines else '?'}: {type(error).__name__}: {error}") from error
    return module
