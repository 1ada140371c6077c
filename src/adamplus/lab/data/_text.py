"""Text files of data sets, line by line."""

from pathlib import Path

from .._errors import InputError


def lines_of(path: Path) -> list[str]:
    """All lines of a UTF-8 file, without their ends."""
    try:
        with path.open(encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file]
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start:,} is not UTF-8 text: the file is damaged, or another one"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: it cannot be read ({error.strerror})") from error
