"""Atomic file writing: a reader finds the old file or the new one, never half of one."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .checksums import signed


@contextmanager
def replacement(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` at the end of the context, unless the context raises."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def replace_file(path: Path, content: bytes) -> None:
    """Create a file, or replace it as a whole."""
    with replacement(path) as file:
        file.write(content)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Create a JSON file with a checksum, or replace it as a whole."""
    replace_file(path, json.dumps(signed(content), indent=1, ensure_ascii=False).encode() + b"\n")
