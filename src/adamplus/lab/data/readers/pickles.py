"""Safe reading of pickles: any pickle that needs more than arrays and plain data is refused."""

import io
import pickle
from typing import Any

import numpy as np

from ...errors import InputError


def load(content: bytes, where: str) -> Any:
    """Load a pickle of arrays, dictionaries, lists, bytes, strings and numbers; strings of Python 2 become bytes."""
    unpickler = _Plain(io.BytesIO(content), encoding="bytes")
    try:
        return _plain(unpickler.load())
    except _RefusedError as error:
        raise InputError(
            f"{where}: this pickle imports {error}, which no data file needs, so it was not read: "
            "download the file again from its official address"
        ) from None
    except Exception as error:  # pickle and numpy raise many kinds of errors for a damaged file
        raise InputError(f"{where} is not a complete pickle of arrays ({type(error).__name__}: {error})") from error


class _RefusedError(Exception):
    """A pickle imports something that plain data does not need; the message is its name."""


class _Plain(pickle.Unpickler):
    """An unpickler that knows only the names that pickles of numpy's arrays import."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """The replacement of a name in a pickle; numpy 2 has renamed its modules."""
        name = f"{module_name.replace('numpy._core', 'numpy.core')}.{global_name}"
        if name not in ALLOWED:
            raise _RefusedError(f"{module_name}.{global_name}")
        return ALLOWED[name]


class _Numbers:
    """A numeric dtype. It takes only the byte order from the pickle; numpy's own would also take memory flags."""

    def __init__(self, code: str | bytes) -> None:
        self.dtype: np.dtype = np.dtype(code.decode("ascii") if isinstance(code, bytes) else code)
        if self.dtype.kind not in "biufS":
            raise _RefusedError(f"numpy.dtype({code!r})")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """An array, made from the bytes in the pickle."""

    values: np.ndarray = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, numbers, by_columns, content = state
        self.values = np.frombuffer(content, numbers.dtype).reshape(shape, order="F" if by_columns else "C")


def _plain(loaded: Any) -> Any:
    """The loaded data with numpy's arrays in place of `_Array`."""
    if isinstance(loaded, dict):
        return {key: _plain(value) for key, value in loaded.items()}
    return loaded.values if isinstance(loaded, _Array) else loaded


def _dtype(code: str | bytes, _align: object = False, _copy: object = False) -> _Numbers:
    return _Numbers(code)


def _latin1(text: str, codec: str) -> bytes:
    """Bytes, as Python 3 writes them into pickles for Python 2."""
    if codec != "latin1":
        raise _RefusedError(f"_codecs.encode(…, {codec!r})")
    return text.encode("latin1")


def _array(_kind: object, _shape: object, _code: object) -> _Array:
    """An empty array, whose content comes next in the pickle."""
    return _Array()


ALLOWED: dict[str, object] = {
    "numpy.core.multiarray._reconstruct": _array,
    "numpy.ndarray": object(),  # only the first argument of _reconstruct, so it need not be callable
    "numpy.dtype": _dtype,
    "_codecs.encode": _latin1,
}
