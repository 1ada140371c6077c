"""Safe reading of pickles of arrays and plain data: each instruction is followed here, and nothing is imported.

Python's unpickler calls and copies whatever a pickle says. This reader knows only the instructions that data files
need, each takes time and memory in proportion to its bytes, and their number is limited.
"""

import math
import pickletools
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import InputError

INSTRUCTIONS = 1 << 20
"""Most instructions of a pickle: twice as many as CIFAR-100 has in its longest form."""
DIMENSIONS = 8


def load(content: bytes, where: str) -> Any:
    """Load a pickle of arrays, dictionaries, lists, bytes, strings and numbers; strings of Python 2 become bytes.

    Protocols 2 to 4 are read, as Python 2 and Python 3 write them.
    """
    try:
        return _Reader(content).read()
    except _RefusedError as error:
        raise InputError(
            f"{where}: this pickle {error}, which no data file needs, so it was not read: "
            "download the file again from its official address"
        ) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{where} is not a complete pickle of arrays ({type(error).__name__}: {error})") from error


class _RefusedError(Exception):
    """A pickle has something that plain data does not need; the message continues "this pickle …"."""


class _Name:
    """A name that a pickle imports. It stands for what it names, which is never looked up."""

    def __init__(self, module: str, name: str) -> None:
        self.text = f"{module.replace('numpy._core', 'numpy.core')}.{name}"  # numpy 2 has renamed its modules
        if self.text not in NAMES:
            raise _RefusedError(f"imports {module[:80]}.{name[:80]}")


class _Numbers:
    """A numeric dtype. It takes only the byte order from the pickle; numpy's own would also take memory flags."""

    def __init__(self, code: str | bytes) -> None:
        text = code.decode("ascii") if isinstance(code, bytes) else code
        if re.fullmatch(r"[|<>=]?([biuf][1248]|S[1-9]\d{0,3})", text, re.ASCII) is None:
            raise _RefusedError(f"imports numpy.dtype({text[:80]!r})")
        self.dtype: np.dtype = np.dtype(text)

    def build(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """An array, made from the bytes in the pickle without a copy."""

    values: np.ndarray | None = None

    def build(self, state: tuple[Any, ...]) -> None:
        _version, shape, numbers, by_columns, content = state
        if not (type(shape) is tuple and len(shape) <= DIMENSIONS and all(type(n) is int and n >= 0 for n in shape)):
            raise ValueError(f"the shape of an array must be up to {DIMENSIONS} whole numbers")
        if type(content) is not bytes or len(content) != math.prod(shape) * numbers.dtype.itemsize:
            raise ValueError(f"an array of shape {list(shape)} and {numbers.dtype} has other bytes than it needs")
        self.values = np.frombuffer(content, numbers.dtype).reshape(shape, order="F" if by_columns else "C")


def _title(value: object) -> str:
    """The name that a value stands for, or its type."""
    return value.text if isinstance(value, _Name) else type(value).__name__


NAMES = ("numpy.core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype", "_codecs.encode")
"""The names that pickles of numpy's arrays import; `numpy.ndarray` is only the first argument of `_reconstruct`."""
BYTES = {b"U": 1, b"T": 4, b"C": 1, b"B": 4, b"\x8e": 8}
"""Instructions with bytes, and how many bytes hold the length of these; strings of Python 2 are bytes."""
TEXTS = {b"\x8c": 1, b"X": 4, b"\x8d": 8}
NUMBERS = {b"K": ("<B", 1), b"M": ("<H", 2), b"J": ("<i", 4), b"G": (">d", 8)}
CONSTANTS: dict[bytes, Callable[[], Any]] = {
    b"N": lambda: None,
    b"\x88": lambda: True,
    b"\x89": lambda: False,
    b")": tuple,
    b"]": list,
    b"}": dict,
}
PUTS = {b"q": 1, b"r": 4}
GETS = {b"h": 1, b"j": 4}
TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
IGNORED = {b"\x80": 1, b"\x95": 8}  # the protocol, and the length of a frame
STOP = b"."
TITLES = {known.code.encode("latin1"): known.name for known in pickletools.opcodes}


class _Reader:
    """The state of reading one pickle: a stack, the marks on it, and a memo of values that occur again."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.encoded = 0
        self.others: dict[bytes, Callable[[], None]] = {
            b"(": lambda: self.marks.append(len(self.stack)),
            b"t": lambda: self.stack.append(tuple(self._since_mark())),
            b"a": lambda: self._append([self._pop()]),
            b"e": lambda: self._append(self._since_mark()),
            b"s": lambda: self._set([self._pop(), self._pop()][::-1]),
            b"u": lambda: self._set(self._since_mark()),
            b"\x94": lambda: self.memo.update({len(self.memo): self.stack[-1]}),
            b"\x8a": lambda: self.stack.append(int.from_bytes(self._counted(1, most=8), "little", signed=True)),
            b"c": lambda: self.stack.append(_Name(self._line(), self._line())),
            b"\x93": lambda: self.stack.append(_Name(*[self._pop(), self._pop()][::-1])),
            b"R": self._reduce,
            b"b": self._build,
        }

    def read(self) -> Any:
        for _ in range(INSTRUCTIONS):
            if (instruction := self._take(1)) == STOP:
                return self._pop()
            self._follow(instruction)
        raise _RefusedError(f"has more than {INSTRUCTIONS:,} instructions")

    def _follow(self, instruction: bytes) -> None:
        if instruction in NUMBERS:
            form, size = NUMBERS[instruction]
            self.stack.extend(struct.unpack(form, self._take(size)))
        elif instruction in PUTS:
            self.memo[self._number(PUTS[instruction])] = self.stack[-1]
        elif instruction in GETS:
            self.stack.append(self.memo[self._number(GETS[instruction])])
        elif instruction in BYTES:
            self.stack.append(self._counted(BYTES[instruction]))
        elif instruction in TEXTS:
            self.stack.append(self._counted(TEXTS[instruction]).decode("utf-8"))
        elif instruction in CONSTANTS:
            self.stack.append(CONSTANTS[instruction]())
        elif instruction in TUPLES:
            self.stack.append(tuple([self._pop() for _ in range(TUPLES[instruction])][::-1]))
        elif instruction in IGNORED:
            self._take(IGNORED[instruction])
        elif instruction in self.others:
            self.others[instruction]()
        elif (title := TITLES.get(instruction)) is not None:
            raise _RefusedError(f"uses the instruction {title}")
        else:
            raise ValueError(f"byte {self.position - 1:,} is no instruction")

    def _take(self, count: int) -> bytes:
        """The next bytes."""
        taken = self.content[self.position : self.position + count]
        if len(taken) < count:
            raise ValueError("it is cut off")
        self.position += count
        return taken

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _counted(self, size: int, most: int | None = None) -> bytes:
        """The next bytes, after the number of them."""
        count = self._number(size)
        if most is not None and count > most:
            raise ValueError(f"a number has {count} bytes")
        return self._take(count)

    def _line(self) -> str:
        line = self.content[self.position : self.content.index(b"\n", self.position)]
        self.position += len(line) + 1
        return line.decode("utf-8")

    def _pop(self) -> Any:
        """The last value of the stack, with the array in place of what it was made by."""
        value = self.stack.pop()
        if isinstance(value, _Array):
            if value.values is None:
                raise ValueError("an array has no content")
            return value.values
        return value

    def _since_mark(self) -> list[Any]:
        """The values after the latest mark, which is removed."""
        count = len(self.stack) - self.marks.pop()
        return [self._pop() for _ in range(count)][::-1]

    def _append(self, values: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise TypeError("something is appended to what is not a list")
        self.stack[-1].extend(values)

    def _set(self, keys_and_values: list[Any]) -> None:
        keys, values = keys_and_values[::2], keys_and_values[1::2]
        if type(self.stack[-1]) is not dict or not all(type(key) in (bytes, str) for key in keys):
            raise TypeError("the keys of a dictionary must be texts")  # the hash of nested tuples may never end
        self.stack[-1].update(zip(keys, values, strict=True))

    def _reduce(self) -> None:
        """Make what a name and its arguments stand for."""
        arguments, name = self._pop(), self._pop()
        called = _title(name)
        if called == "numpy.dtype":
            code, _align, _copy = arguments
            self.stack.append(_Numbers(code))
        elif called == "numpy.core.multiarray._reconstruct":
            self.stack.append(_Array())  # its content comes next
        elif called == "_codecs.encode":  # bytes, as Python 3 writes them into pickles for Python 2
            text, codec = arguments
            if type(text) is not str or codec != "latin1":
                raise _RefusedError("calls _codecs.encode for another codec than latin1")
            self.encoded += len(text)
            if self.encoded > len(self.content):  # the same text again and again
                raise _RefusedError("makes more bytes than it has")
            self.stack.append(text.encode("latin1"))
        else:
            raise _RefusedError(f"calls {called}")

    def _build(self) -> None:
        state, target = self._pop(), self.stack[-1]
        if not isinstance(target, _Array | _Numbers):
            raise _RefusedError(f"sets attributes of {_title(target)}")
        target.build(state)
