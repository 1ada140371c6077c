"""Checksums of stored files: a bit that flips on the disk is found when the file is read.

JSON files and lines have the checksum as their last field. A file of torch.save has it in a line at its end, which
torch.load ignores. What earlier versions wrote has none, and is read as it is.
"""

import json
import re
import zlib
from pathlib import Path
from typing import IO, Any

FIELD = "checksum"
CHECKSUM = re.compile(r"crc32:[0-9a-f]{8}")
TRAILER = re.compile(rb"\nchecksum crc32:([0-9a-f]{8})\n")
TRAILER_BYTES = len(b"\nchecksum crc32:00000000\n")
CHUNK = 1 << 20


def signed(content: dict[str, Any]) -> dict[str, Any]:
    """The content with its checksum as the last field."""
    content = {name: value for name, value in content.items() if name != FIELD}
    return {**content, FIELD: _of_json(json.loads(json.dumps(content)))}  # as a reader will see it


def parse_json(text: str | bytes) -> dict[str, Any]:
    """Parse an object and return it without its checksum.

    Raises ValueError if the text is no JSON, holds something else than an object, or does not match its checksum. That
    includes a checksum under another name: a bit of its name has changed, or it would be read as a field of its own.
    """
    try:
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError(f"it must hold an object, but holds a {type(content).__name__}")
        stored = content.pop(FIELD, None)
        if stored is not None and stored != (now := _of_json(content)):
            raise ValueError(f"it has changed since it was written: its checksum is {now}, not {stored}")
        for name, value in content.items() if stored is None else ():
            if isinstance(value, str) and CHECKSUM.fullmatch(value):
                raise ValueError(f"it has changed since it was written: its checksum is called {name!r}")
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object. Raises OSError, or ValueError like `parse_json`."""
    return parse_json(path.read_bytes())


class ChecksumWriter:
    """A file for torch.save, which writes the checksum at its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.checksum = file, 0

    def write(self, content: bytes) -> int:
        """Write to the file."""
        self.checksum = zlib.crc32(content, self.checksum)
        return self.file.write(content)

    def flush(self) -> None:
        """Flush the file."""
        self.file.flush()

    def finish(self) -> None:
        """Write the checksum. Nothing may be written after it."""
        self.file.write(f"\nchecksum crc32:{self.checksum:08x}\n".encode())


def check_trailer(path: Path) -> None:
    """Raise ValueError if a file does not match the checksum at its end."""
    now, rest = 0, path.stat().st_size - TRAILER_BYTES
    with path.open("rb") as file:
        while chunk := file.read(min(CHUNK, max(rest, 0))):
            now, rest = zlib.crc32(chunk, now), rest - len(chunk)
        trailer = TRAILER.fullmatch(file.read())
    if trailer is not None and int(trailer[1], 16) != now:
        stored = trailer[1].decode()
        raise ValueError(f"it has changed since it was written: its checksum is crc32:{now:08x}, not crc32:{stored}")


def _of_json(content: dict[str, Any]) -> str:
    return f"crc32:{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"
