"""Text files of data sets, line by line."""

import io
from pathlib import Path

from ...errors import InputError


def lines_of(path: Path) -> list[str]:
    """All lines of a UTF-8 file, without their ends."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start:,} is not UTF-8 text: the file is damaged, or another one"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: it cannot be read ({error.strerror})") from error
    return [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
