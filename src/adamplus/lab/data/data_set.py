"""What a data set is: the layouts it is found in, its digests, its sources, and the folder of all data sets."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError

VARIABLE = "ADAMPLUS_DATA"
"""Environment variable that names the folder of all data sets."""
LIMIT = 1 << 30
"""Most bytes of a download or an archive, unless its data set says otherwise: five times the largest known one."""


def data_root(named: Path | str | None = None) -> Path:
    """The folder of all data sets: `named` if given, else $ADAMPLUS_DATA, else ~/.cache/adamplus."""
    root = Path(named or os.environ.get(VARIABLE) or Path("~", ".cache", "adamplus")).expanduser()
    if root.exists() and not root.is_dir():
        raise InputError(f"{root} is not a folder: name the folder of data sets by --data or ${VARIABLE}")
    return root


@dataclass(frozen=True)
class File:
    """A file of a layout."""

    name: str
    """Its path within the layout's folder."""
    digest: str | None = None
    """The digest of the file, "md5:…" or "sha256:…", if it is known."""
    content: str | None = None
    """Digest of what the layout's `content` returns: equal for files with the same content in other bytes."""

    def is_in(self, folder: Path) -> bool:
        """Whether the folder has this file."""
        return (folder / self.name).is_file()


@dataclass(frozen=True)
class Tree:
    """Many files of one kind, with one digest for all of them."""

    name: str
    """A pattern of `Path.glob`, within the layout's folder."""
    count: int
    digest: str
    """The digest of all files, by `digest_of_tree`."""

    def is_in(self, folder: Path) -> bool:
        """Whether the folder has any of these files."""
        return next(folder.glob(self.name), None) is not None


@dataclass(frozen=True)
class Layout:
    """One of the official forms of a data set."""

    title: str
    folders: tuple[str, ...]
    """Folders where it may be, under the root of all data; downloads go into the first."""
    files: tuple[File | Tree, ...]
    archive: File | None = None
    """The official archive, if the reader can read it as it is; it contains the first folder."""
    content: Callable[[bytes], bytes] | None = None
    """A function of a file's bytes that returns its content in a form with a known digest."""


@dataclass(frozen=True)
class Source:
    """A file to download."""

    address: str
    name: str
    """The name to store it by: the archive's own name, or the name of a file of the layout."""
    digest: str | None = None
    inside: str | None = None
    """The folder of the archive that is the layout's folder; None if the file is not an archive."""
    limit: int = LIMIT
    """Most bytes of the file, and of its content if it is an archive."""


class Place(NamedTuple):
    """The place where a data set was found."""

    layout: Layout
    path: Path
    """A folder, or the official archive."""
    packed: bool
    """Whether the path is the archive."""
    lacks: tuple[str, ...]
    """Names of files that are missing."""


@dataclass(frozen=True)
class DataSet:
    """A data set: its name, its layouts on disk, its sources and its licence."""

    name: str
    title: str
    layouts: tuple[Layout, ...]
    licence: str
    home: str
    ways: tuple[tuple[Source, ...], ...] = ()
    """Ways to download it into the first layout, best first; each is a complete list of files."""
    advice: str = ""
    """Advice for users who want to get it."""

    def place(self, root: Path) -> Place | None:
        """Where it is under a root: complete in a folder, else in its archive, else incomplete in a folder."""
        folders = [(layout, root / folder) for layout in self.layouts for folder in layout.folders]
        places = [
            Place(layout, folder, False, tuple(file.name for file in layout.files if not file.is_in(folder)))
            for layout, folder in folders
            if folder.is_dir()
        ]
        packed = [
            Place(layout, root / layout.archive.name, True, ())
            for layout in self.layouts
            if layout.archive is not None and layout.archive.is_in(root)
        ]
        whole = [place for place in places if not place.lacks]
        # the root itself counts only if it has all files, or every root would be an incomplete copy of every set
        part = [place for place in places if place.lacks and place.path != root]
        found = [*whole, *packed, *part]
        return found[0] if found else None

    def locate(self, root: Path) -> Place:
        """Where it is under a root; InputError with advice if it is missing or incomplete."""
        place = self.place(root)
        if place is None:
            raise InputError(f"{self.title} is not in {root}: {self.expected()}. {self.how_to_get(root)}")
        if place.lacks:
            raise InputError(
                f"{self.title} in {place.path} is incomplete: {', '.join(place.lacks)} missing. {self.how_to_get(root)}"
            )
        return place

    @contextmanager
    def reading(self, root: Path) -> Iterator[Place]:
        """Where it is under a root; errors of a reader inside get advice on how to replace wrong files."""
        place = self.locate(root)
        try:
            yield place
        except InputError as error:
            remedy = f"adamplus data download {self.name} --data {root}"
            raise InputError(f"{error}. To replace it by the official {self.title}: {remedy}") from error

    def expected(self) -> str:
        """The expected files, as part of a message."""
        forms = [
            f"{layout.folders[0]}/ with {', '.join(file.name for file in layout.files)}"
            + (f" (or {layout.archive.name})" if layout.archive is not None else "")
            for layout in self.layouts
        ]
        return f"expected {'; or '.join(forms)}"

    def how_to_get(self, root: Path) -> str:
        """How to get the data set, as the end of a message."""
        command = f"To get it: adamplus data download {self.name} --data {root}. " if self.ways else ""
        return f"{command}{self.advice}".strip()
