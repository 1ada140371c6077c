"""Pickles of plain data: what asks for anything else is refused, not run."""

import io
import pickle
from typing import Any

import numpy as np

from ...errors import InputError


def load(content: bytes, where: str) -> Any:
    """What a pickle holds, of arrays, dictionaries, lists, bytes, texts and numbers; strings of Python 2 as bytes."""
    unpickler = _Plain(io.BytesIO(content), encoding="bytes")
    try:
        return _plain(unpickler.load())
    except _RefusedError as error:
        raise InputError(
            f"{where}: this pickle asks for {error}, which no data file needs, so it was not read: "
            "get the file again from its official address"
        ) from None
    except Exception as error:  # whatever pickle and numpy make of bytes that are none of theirs
        raise InputError(f"{where}: this is no whole pickle of arrays ({type(error).__name__}: {error})") from error


class _RefusedError(Exception):
    """A pickle asked for something that plain data does not need; the message is its name."""


class _Plain(pickle.Unpickler):
    """Finds the names that numpy's arrays are pickled with, and no others."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """What stands for a name in a pickle; numpy's modules were renamed in its version 2."""
        name = f"{module_name.replace('numpy._core', 'numpy.core')}.{global_name}"
        if name not in ALLOWED:
            raise _RefusedError(f"{module_name}.{global_name}")
        return ALLOWED[name]


class _Numbers:
    """A type of numbers. Of what numpy's own would take from a pickle, flags of its memory too, the order of bytes."""

    def __init__(self, code: str | bytes) -> None:
        self.dtype: np.dtype = np.dtype(code.decode("ascii") if isinstance(code, bytes) else code)
        if self.dtype.kind not in "biufS":
            raise _RefusedError(f"numpy.dtype({code!r})")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """An array, made of its bytes when the pickle gives them."""

    values: np.ndarray = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, numbers, by_columns, content = state
        self.values = np.frombuffer(content, numbers.dtype).reshape(shape, order="F" if by_columns else "C")


def _plain(loaded: Any) -> Any:
    """With numpy's arrays in place of ours, where data files have them."""
    if isinstance(loaded, dict):
        return {key: _plain(value) for key, value in loaded.items()}
    return loaded.values if isinstance(loaded, _Array) else loaded


def _dtype(code: str | bytes, _align: object = False, _copy: object = False) -> _Numbers:
    return _Numbers(code)


def _latin1(text: str, codec: str) -> bytes:
    """Bytes as Python 3 writes them into pickles that Python 2 can read."""
    if codec != "latin1":
        raise _RefusedError(f"_codecs.encode(…, {codec!r})")
    return text.encode("latin1")


def _array(_kind: object, _shape: object, _code: object) -> _Array:
    """An empty array, which the pickle fills next."""
    return _Array()


ALLOWED: dict[str, object] = {
    "numpy.core.multiarray._reconstruct": _array,
    "numpy.ndarray": object(),  # only ever the first argument of the one above; nothing that can be called
    "numpy.dtype": _dtype,
    "_codecs.encode": _latin1,
}
