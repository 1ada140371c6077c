"""Members of tar and zip archives, whose headers cannot take more time or memory than the limits here allow.

Tar archives are read forward, block by block. Python's tarfile would follow headers to any size, number and place.
"""

import bz2
import gzip
import lzma
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from ..errors import InputError

BLOCK = 512
CHUNK = 1 << 16
EXTENDED = 16 << 20
"""Most bytes of all extended headers (long names and attributes) of an archive."""
HEADERS = 10_000
"""Most headers of an archive; FSDD's has 3,014 files."""
LONGEST_NAME = 4096
COMPRESSED: dict[bytes, Callable[[Path], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
FILES, EXTENSIONS, WITHOUT_CONTENT = b"07\0", b"xXgLK", b"123456"
"""Types in the headers of tar archives, one byte each."""
KINDS = {b"1": "link", b"2": "link", b"5": "folder"}


class Content(Protocol):
    """The content of a file: what `shutil.copyfileobj` reads."""

    def read(self, size: int = ..., /) -> bytes:
        """The next bytes, at most `size`; empty at the end."""
        ...


class Member(NamedTuple):
    """A file or folder of an archive."""

    name: str
    size: int
    kind: str
    content: Content | None
    """The content of a file, which can be read until the next member is taken; None for other members."""


@contextmanager
def opened(archive: Path, limit: int) -> Iterator[Iterator[Member]]:
    """The members of an archive, of which the next is read when it is taken.

    InputError if they have more than `limit` bytes, or if reading or writing them fails.
    """
    try:
        yield (_of_zip if archive.suffix == ".zip" else _of_tar)(archive, limit)
    except InputError:
        raise
    except Exception as error:  # zip, tar and their compressions raise many kinds of errors for a damaged file
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(f"{archive} cannot be unpacked ({error.strerror})") from error
        raise InputError(f"{archive} cannot be read as an archive ({error or type(error).__name__})") from error


def too_large(archive: Path, limit: int) -> InputError:
    """The error for an archive with more than `limit` bytes."""
    return InputError(f"{archive} has more than {limit:,} bytes of content, so it was not unpacked")


def _check_count(archive: Path, headers: int) -> None:
    if headers > HEADERS:
        raise InputError(f"{archive} has more than {HEADERS:,} members, so it was not unpacked")


def _of_zip(archive: Path, limit: int) -> Iterator[Member]:
    total = 0
    with zipfile.ZipFile(archive) as packed:
        _check_count(archive, len(packed.infolist()))
        for info in packed.infolist():
            total += info.file_size
            if total > limit:
                raise too_large(archive, limit)
            mode = stat.S_IFMT(info.external_attr >> 16)
            if info.is_dir():
                yield Member(info.filename, 0, "folder", None)
            elif mode not in (0, stat.S_IFREG):
                yield Member(info.filename, 0, "link" if mode == stat.S_IFLNK else "device", None)
            else:
                with packed.open(info) as content:
                    yield Member(info.filename, info.file_size, "file", content)


def _of_tar(archive: Path, limit: int) -> Iterator[Member]:
    with archive.open("rb") as file:
        start = file.read(max(map(len, COMPRESSED)))
    opened = next((opened for magic, opened in COMPRESSED.items() if start.startswith(magic)), None)
    with archive.open("rb") if opened is None else opened(archive) as file:
        yield from _Tar(archive, file, limit).members()


class _Tar:
    """A tar archive that is being read."""

    def __init__(self, archive: Path, file: IO[bytes], limit: int) -> None:
        self.archive = archive
        self.file = file
        self.limit = limit
        self.left = limit
        self.extended = 0
        self.headers = 0

    def members(self) -> Iterator[Member]:
        name, size = None, None  # from extended headers, which come before the member's own
        header = self.take(BLOCK)
        while header.strip(b"\0"):  # the end is a block of zeros
            self.headers += 1
            _check_count(self.archive, self.headers)
            _check_sum(header)
            kind, own_size = header[156:157], _octal(header[124:136])
            if kind in EXTENSIONS:
                payload = self._payload(own_size)
                if kind == b"L":
                    name = payload.partition(b"\0")[0]
                elif kind in (b"x", b"X"):
                    attributes = _attributes(payload)
                    name = attributes.get(b"path", name)
                    size = int(attributes[b"size"]) if b"size" in attributes else size
            else:
                size = 0 if kind in WITHOUT_CONTENT else own_size if size is None else size
                yield from self._member(kind, _name(header) if name is None else name, size)
                name, size = None, None
            header = self.take(BLOCK, or_end=True)

    def _member(self, kind: bytes, name: bytes, size: int) -> Iterator[Member]:
        text = name.decode("utf-8", "surrogateescape")
        if len(text) > LONGEST_NAME:
            raise ValueError(f"a name has {len(text):,} characters")
        if size > self.left:
            raise too_large(self.archive, self.limit)
        content = _TarContent(self, size)
        if kind in FILES and not (kind == b"\0" and text.endswith("/")):  # so archives before 1988 name a folder
            yield Member(text, size, "file", content)
        else:
            yield Member(text, size, KINDS.get(kind, "folder" if kind == b"\0" else "device"), None)
        content.skip()

    def take(self, count: int, or_end: bool = False) -> bytes:
        """The next bytes; none at the end of the archive, if it may end here."""
        self.left -= count
        if self.left < 0:
            raise too_large(self.archive, self.limit)
        taken = self.file.read(count)
        if len(taken) < count and not (or_end and not taken):
            raise ValueError("it is cut off")
        return taken

    def _payload(self, size: int) -> bytes:
        """The content of an extended header."""
        self.extended += size
        if self.extended > EXTENDED:
            raise InputError(
                f"{self.archive} has more than {EXTENDED:,} bytes of names and attributes, so it was not unpacked"
            )
        return self.take(-(-size // BLOCK) * BLOCK)[:size]


class _TarContent:
    """The content of a file in a tar archive."""

    def __init__(self, tar: _Tar, size: int) -> None:
        self.tar = tar
        self.left = size
        self.padding = -size % BLOCK

    def read(self, size: int = CHUNK, /) -> bytes:
        count = min(max(size, 0), self.left, CHUNK)
        self.left -= count
        return self.tar.take(count)

    def skip(self) -> None:
        """Read on to the next header."""
        while self.read(CHUNK):
            pass
        self.tar.take(self.padding)


def _check_sum(header: bytes) -> None:
    """Raise ValueError unless the sum of a header's bytes is the one that it states."""
    if _octal(header[148:156]) != sum(header[:148]) + 8 * ord(" ") + sum(header[156:]):
        raise ValueError("it is not a tar archive, or it is damaged")


def _octal(field: bytes) -> int:
    digits = field.partition(b"\0")[0].strip(b" ")
    if re.fullmatch(rb"[0-7]*", digits) is None:  # GNU tar has another form for sizes above 8 GiB
        raise ValueError(f"{digits!r} is not an octal number")
    return int(digits or b"0", 8)


def _name(header: bytes) -> bytes:
    """The name in a member's own header."""
    name, prefix = (field.partition(b"\0")[0] for field in (header[:100], header[345:500]))
    return prefix + b"/" + name if prefix and header[257:263] == b"ustar\0" else name


def _attributes(payload: bytes) -> dict[bytes, bytes]:
    """The attributes in an extended header: records "LENGTH KEY=VALUE" and a line end; the length counts all of it."""
    found: dict[bytes, bytes] = {}
    position = 0
    while position < len(payload):
        digits = payload[position : position + 12].partition(b" ")[0]
        if not digits.isdigit() or int(digits) <= len(digits):
            raise ValueError("an extended header is damaged")
        record = payload[position : position + int(digits)]
        position += int(digits)
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not equals or len(record) < int(digits) or record[-1:] != b"\n":
            raise ValueError("an extended header is damaged")
        found[key] = value
    if not re.fullmatch(rb"\d{1,15}", found.get(b"size", b"0")):
        raise ValueError("an extended header is damaged")
    return found
