"""Unpacking of downloaded archives, confined to the target folder."""

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
"""Largest total size of an archive: ten times that of the largest known set."""
OVERHEAD = 512  # bytes counted for every member, so that a million empty files exceed the limit, too


class Member(NamedTuple):
    """A file or folder of an archive."""

    name: str
    size: int
    kind: str
    content: IO[bytes] | None
    """The content of a file; None for other members."""


def unpack(archive: Path, inside: str, to: Path, limit: int = LIMIT) -> None:
    """Unpack the archive's folder `inside` into `to`; refuse links, devices, duplicates and names that lead out."""
    below = PurePosixPath(inside)
    total = 0
    try:
        for member in _members(archive):
            path = _plain_path(member.name, archive)
            total += member.size + OVERHEAD
            if total > limit:
                raise InputError(f"{archive} has more than {limit:,} bytes of content, so it was not unpacked")
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
        raise InputError(f"{archive} has {Path(error.filename).name!r} twice, so it was not unpacked") from error
    except InputError:
        raise
    except OSError as error:  # gzip also raises this if the file is not gzip
        raise InputError(f"{archive} cannot be unpacked ({error.strerror or error})") from error
    except Exception as error:  # zip, tar and their compressions raise many kinds of errors for a damaged file
        raise InputError(f"{archive} cannot be read as an archive ({error or type(error).__name__})") from error


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
    return packed.extractfile(member) if member.isreg() else None  # for a link, extractfile would follow it


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
