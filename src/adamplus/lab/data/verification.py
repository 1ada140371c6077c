"""Digests of files, and whether the data sets under a root have the known ones."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from ..errors import InputError
from .data_set import DataSet, File, Layout, Place, Tree
from .sets import SETS, find

Status = Literal["ok", "missing", "wrong digest", "unknown digest"]


class Checked(NamedTuple):
    """The result of checking a file."""

    data_set: str
    path: Path
    status: Status
    note: str = ""
    """Details. Results store a digest of them to recognize their data, so the texts must not change."""


def where(root: Path) -> list[tuple[DataSet, Place | None]]:
    """Every known data set, with its place under a root."""
    return [(one, one.place(root)) for one in SETS.values()]


def verify(root: Path, names: Iterable[str] = ()) -> list[Checked]:
    """Check every file of the named sets against its known digest. Default: all sets under the root."""
    sets = [find(name) for name in names] or [one for one, place in where(root) if place is not None]
    return [checked for one in sets for checked in _check_set(one, root)]


def check_folder(name: str, layout: Layout, folder: Path) -> Iterator[Checked]:
    """Check every file of a layout in a folder."""
    for file in layout.files:
        if not file.is_in(folder):
            yield Checked(name, folder / file.name, "missing")
        elif isinstance(file, Tree):
            yield _check_tree(name, file, folder)
        else:
            yield _check_file(name, file, folder / file.name, layout)


def _check_set(one: DataSet, root: Path) -> Iterator[Checked]:
    place = one.place(root)
    if place is None:
        return check_folder(one.name, one.layouts[0], root / one.layouts[0].folders[0])
    if place.packed:
        assert place.layout.archive is not None
        return iter([_check_file(one.name, place.layout.archive, place.path, place.layout)])
    return check_folder(one.name, place.layout, place.path)


def _check_file(name: str, file: File, path: Path, layout: Layout) -> Checked:
    if file.digest is None:
        return Checked(name, path, "unknown digest")
    found = digest_of(path, file.digest)
    if found == file.digest:
        return Checked(name, path, "ok")
    if file.content is not None and layout.content is not None:
        try:
            content = layout.content(path.read_bytes())
        except InputError as error:
            return Checked(name, path, "wrong digest", str(error))
        if digest_of_bytes(content, file.content) == file.content:
            return Checked(name, path, "ok", "written anew: its images and labels are the official ones")
    return Checked(name, path, "wrong digest", f"{found}, and {file.digest} is expected")


def _check_tree(name: str, tree: Tree, folder: Path) -> Checked:
    paths = list(folder.glob(tree.name))
    path = folder / tree.name
    if len(paths) != tree.count:
        return Checked(name, path, "wrong digest", f"{len(paths):,} files, and {tree.count:,} are expected")
    found = digest_of_tree(folder, paths)
    if found != tree.digest:
        return Checked(name, path, "wrong digest", f"{found}, and {tree.digest} is expected")
    return Checked(name, path, "ok", f"{len(paths):,} files")


def digest_of(path: Path, like: str) -> str:
    """The digest of a file by the algorithm of another digest; both are "md5:…" or "sha256:…"."""
    algorithm = like.partition(":")[0]
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def digest_of_bytes(content: bytes, like: str) -> str:
    """The digest of bytes by the algorithm of another digest."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


def digest_of_tree(folder: Path, paths: Iterable[Path]) -> str:
    """SHA-256 over the name, a newline and the bytes of all files, ordered by name."""
    total = hashlib.sha256()
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in paths):
        total.update(name.encode() + b"\n" + path.read_bytes())
    return f"sha256:{total.hexdigest()}"
