"""Files of data sets, read as a whole."""

import io
import stat
from pathlib import Path

from ...errors import InputError

LARGEST = 1 << 28
"""Most bytes of a file; the largest official one, CIFAR-100's training images, has 155 million."""


def size_of(path: Path) -> int:
    """The number of bytes of a file. InputError for a pipe or a device, which may never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} cannot be read (it is not a file)")
    return status.st_size


def bytes_of(path: Path) -> bytes:
    """The content of a file."""
    try:
        if (size := size_of(path)) > LARGEST:
            raise InputError(f"{path} has {size:,} bytes, more than any file of a data set")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error


def text_of(path: Path) -> str:
    """The content of a UTF-8 file."""
    try:
        return bytes_of(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start:,} is not UTF-8 text: the file is damaged, or is another file"
        ) from error


def lines_of(path: Path) -> list[str]:
    """All lines of a UTF-8 file, without the line ends."""
    return [line.rstrip("\n") for line in io.StringIO(text_of(path), newline=None)]
