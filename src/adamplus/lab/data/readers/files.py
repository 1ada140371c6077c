"""Files of data sets, read as a whole."""

import io
from pathlib import Path

from ...errors import InputError


def bytes_of(path: Path) -> bytes:
    """The content of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error


def lines_of(path: Path) -> list[str]:
    """All lines of a UTF-8 file, without the line ends."""
    try:
        text = bytes_of(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start:,} is not UTF-8 text: the file is damaged, or is another file"
        ) from error
    return [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
