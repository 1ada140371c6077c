"""Downloads of data sets: fetched, unpacked, checked, and only then moved into place."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError
from .data_set import DataSet, Source
from .fetching import ProgressCallback, RetryPolicy, fetch
from .sets import find
from .unpack import unpack
from .verification import check_folder, verify


def download(name: str, root: Path, progress: ProgressCallback | None = None, retry: RetryPolicy | None = None) -> Path:
    """Download a data set unless it is under the root with the right digests; return its path.

    All files are in ROOT/NAME.download until the set is complete, and an interrupted download resumes from there.
    """
    one = find(name)
    place = one.place(root)
    if (
        place is not None
        and not place.lacks
        and all(c.status in ("ok", "unknown digest") for c in verify(root, [name]))
    ):
        return place.path
    if not one.ways:
        raise InputError(f"{one.title} cannot be downloaded. {one.advice}")
    problems = []
    folder = root / one.layouts[0].folders[0]
    with _workshop(root / f"{name}.download") as workshop:
        for way in one.ways:
            try:
                _one_way(one, way, workshop, folder, progress, retry)
                break
            except InputError as error:
                problems.append(str(error))
        else:
            others = "" if place is None else f"; the files in {place.path} were not changed"
            raise InputError(f"{one.title} could not be downloaded: {'; '.join(problems)}{others}. See {one.home}")
    if wrong := [c for c in check_folder(one.name, one.layouts[0], folder) if c.status == "wrong digest"]:
        listed = ", ".join(f"{c.path.relative_to(folder)}: {c.note}" for c in wrong)
        raise InputError(f"{folder} has {one.title} and files that are not part of it ({listed}): move these away")
    return folder


def _one_way(
    one: DataSet,
    way: tuple[Source, ...],
    workshop: Path,
    folder: Path,
    progress: ProgressCallback | None,
    retry: RetryPolicy | None,
) -> None:
    unpacked = workshop / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    for source in way:  # fetch all before unpacking, so that a failure keeps the files fetched before
        fetch(source.address, workshop / source.name, source.digest, progress, retry, source.limit)
    for source in way:
        fetched = workshop / source.name
        if source.inside is None:
            fetched.replace(unpacked / source.name)
            continue
        try:
            unpack(fetched, source.inside, unpacked, source.limit)
        finally:
            fetched.unlink()
    wrong = [c for c in check_folder(one.name, one.layouts[0], unpacked) if c.status in ("missing", "wrong digest")]
    if wrong:
        listed = ", ".join(f"{c.path.relative_to(unpacked)}: {c.status}" for c in wrong)
        raise InputError(f"{way[0].address} is not {one.title} ({listed})")
    _put(unpacked, folder)
    shutil.rmtree(workshop)


def _put(unpacked: Path, folder: Path) -> None:
    """Move all files into the folder; other files in it stay."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.exists():
        unpacked.rename(folder)
        return
    for path in sorted(unpacked.rglob("*")):
        target = folder / path.relative_to(unpacked)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        else:
            path.replace(target)


@contextmanager
def _workshop(folder: Path) -> Iterator[Path]:
    """A folder that one download uses at a time; it is removed at the end unless it has files to resume from."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a")
    except OSError as error:
        raise InputError(f"{folder} cannot be written to ({error.strerror}): pass another folder as --data") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another download is writing to {folder}: wait for it") from None
        try:
            yield folder
        finally:
            shutil.rmtree(folder / "unpacked", ignore_errors=True)
            if folder.is_dir() and not any(path.name != ".lock" for path in folder.iterdir()):
                shutil.rmtree(folder)
