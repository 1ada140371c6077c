"""Unpacking of downloaded archives, confined to the target folder."""

import shutil
from pathlib import Path, PurePosixPath

from ..errors import InputError
from .archives import opened
from .data_set import LIMIT


def unpack(archive: Path, inside: str, to: Path, limit: int = LIMIT) -> None:
    """Unpack the archive's folder `inside` into `to`; refuse links, devices, duplicates and names that lead out.

    An archive with more than `limit` bytes of content is refused, too.
    """
    below = PurePosixPath(inside)
    with opened(archive, limit) as members:
        for member in members:
            path = _plain_path(member.name, archive)
            if not path.is_relative_to(below):
                continue
            if member.kind not in ("file", "folder"):
                raise InputError(f"{archive}: {member.name!r} is a {member.kind}, so the archive was not unpacked")
            if member.content is not None:
                target = to.joinpath(*path.relative_to(below).parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    file = target.open("xb")
                except FileExistsError as error:
                    raise InputError(f"{archive} has {target.name!r} twice, so it was not unpacked") from error
                with file:
                    shutil.copyfileobj(member.content, file)


def _plain_path(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"{archive}: {name!r} leads out of the folder, so the archive was not unpacked")
    return path
