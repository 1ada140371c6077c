"""Archives from the network, unpacked so that nothing gets out of the folder it is meant for."""

import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from ..errors import InputError

LIMIT = 4 << 30
"""Bytes that an archive may hold: ten times what the largest of the known sets has."""
OVERHEAD = 512  # counted for every member, so that a million empty files are large, too


class Member(NamedTuple):
    """A file or folder of an archive."""

    name: str
    size: int
    kind: str
    content: IO[bytes] | None
    """Of a file."""


def unpack(archive: Path, inside: str, to: Path, limit: int = LIMIT) -> None:
    """Write the files below the archive's folder `inside` below `to`; refuse archives with anything odd in them."""
    below = PurePosixPath(inside)
    total = 0
    try:
        for member in _members(archive):
            path = _plain_path(member.name, archive)
            total += member.size + OVERHEAD
            if total > limit:
                raise InputError(f"{archive}: it holds more than {limit:,} bytes, so it was not unpacked")
            if not path.is_relative_to(below):
                continue
            if member.kind not in ("file", "folder"):
                raise InputError(f"{archive}: {member.name!r} is a {member.kind}, so the archive was not unpacked")
            if member.content is not None:
                target = to.joinpath(*path.relative_to(below).parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    shutil.copyfileobj(member.content, file)
    except FileExistsError as error:
        raise InputError(f"{archive}: {Path(error.filename).name!r} is in it twice, so it was not unpacked") from error
    except InputError:
        raise
    except OSError as error:  # gzip says so, too, of what is no gzip
        raise InputError(f"{archive}: it cannot be unpacked ({error.strerror or error})") from error
    except Exception as error:  # whatever zip, tar and their compressions make of a damaged file
        raise InputError(f"{archive}: this archive cannot be read ({error or type(error).__name__})") from error


def _plain_path(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"{archive}: {name!r} leads out of the folder, so the archive was not unpacked")
    return path


def _members(archive: Path) -> Iterator[Member]:
    return _of_zip(archive) if zipfile.is_zipfile(archive) else _of_tar(archive)


def _of_tar(archive: Path) -> Iterator[Member]:
    with tarfile.open(archive) as packed:
        for member in packed:
            with ExitStack() as stack:
                file = stack.enter_context(content) if (content := _tar_file(packed, member)) else None
                link = "link" if member.issym() or member.islnk() else "device"
                kind = "folder" if member.isdir() else "file" if file is not None else link
                yield Member(member.name, member.size, kind, file)


def _tar_file(packed: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes] | None:
    return packed.extractfile(member) if member.isreg() else None  # of a link, it would be what the link leads to


def _of_zip(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            mode = stat.S_IFMT(info.external_attr >> 16)
            if info.is_dir():
                yield Member(info.filename, 0, "folder", None)
            elif mode not in (0, stat.S_IFREG):
                yield Member(info.filename, 0, "link" if mode == stat.S_IFLNK else "device", None)
            else:
                with packed.open(info) as content:
                    yield Member(info.filename, info.file_size, "file", content)
