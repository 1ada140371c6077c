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
    """As "md5:…" or "sha256:…", where it is known."""
    content: str | None = None
    """Digest of what the layout's `content` makes of the file: equal for files that hold the same in other bytes."""

    def there(self, folder: Path) -> bool:
        """Whether the folder has it."""
        return (folder / self.name).is_file()


@dataclass(frozen=True)
class Tree:
    """Many files of one kind, which have one digest together."""

    name: str
    """A pattern, as `Path.glob` takes it, within the layout's folder."""
    count: int
    digest: str
    """Of names and bytes, as `digest_of_tree` takes it."""

    def there(self, folder: Path) -> bool:
        """Whether the folder has any."""
        return next(folder.glob(self.name), None) is not None


@dataclass(frozen=True)
class Layout:
    """A form that a data set is found in."""

    title: str
    folders: tuple[str, ...]
    """Where it may be, under the root of all data; the first is where a download puts it."""
    files: tuple[File | Tree, ...]
    archive: File | None = None
    """The official archive, where the reader can do with it alone; it holds the first folder."""
    content: Callable[[bytes], bytes] | None = None
    """What a file holds, in a form that has a known digest, however it was written."""


@dataclass(frozen=True)
class Source:
    """A file to download."""

    address: str
    name: str
    """What to call it: an archive's own name, or that of a file of the layout."""
    digest: str | None = None
    inside: str | None = None
    """The folder of the archive that is the layout's; None for a file that is no archive."""


class Place(NamedTuple):
    """Where a data set was found."""

    layout: Layout
    path: Path
    """A folder, or the official archive."""
    packed: bool
    """Whether it is the archive."""
    lacks: tuple[str, ...]
    """Files that should be there and are not."""


@dataclass(frozen=True)
class DataSet:
    """A data set: what it is called, how it lies on a disk, where one gets it and on which terms."""

    name: str
    title: str
    layouts: tuple[Layout, ...]
    licence: str
    home: str
    ways: tuple[tuple[Source, ...], ...] = ()
    """Ways to download it into the first layout, the best one first; each is all files that are needed."""
    advice: str = ""
    """What one should know who wants to get it."""

    def place(self, root: Path) -> Place | None:
        """Where it is under a root: whole in a folder, else in its archive, else in part in a folder."""
        folders = [(layout, root / folder) for layout in self.layouts for folder in layout.folders]
        places = [
            Place(layout, folder, False, tuple(file.name for file in layout.files if not file.there(folder)))
            for layout, folder in folders
            if folder.is_dir()
        ]
        packed = [
            Place(layout, root / layout.archive.name, True, ())
            for layout in self.layouts
            if layout.archive is not None and layout.archive.there(root)
        ]
        whole = [place for place in places if not place.lacks]
        # the root itself counts where everything is in it: otherwise every root would be a part of every set
        part = [place for place in places if place.lacks and place.path != root]
        found = [*whole, *packed, *part]
        return found[0] if found else None

    def locate(self, root: Path) -> Place:
        """The same, but a set that is not there or not whole is an error that says what to do."""
        place = self.place(root)
        if place is None:
            raise InputError(f"{self.title} is not in {root}: {self.expected()}. {self.how_to_get(root)}")
        if place.lacks:
            raise InputError(
                f"{self.title} in {place.path} is not whole, it lacks {', '.join(place.lacks)}. {self.how_to_get(root)}"
            )
        return place

    @contextmanager
    def reading(self, root: Path) -> Iterator[Place]:
        """The same of one that can be downloaded, and what is wrong with its files is told with what to do."""
        place = self.locate(root)
        try:
            yield place
        except InputError as error:
            remedy = f"adamplus data download {self.name} --data {root} puts the official files in their place"
            raise InputError(f"{error}. If this is to be the official {self.title}: {remedy}") from error

    def expected(self) -> str:
        """The files that are looked for, as part of a message."""
        forms = [
            f"{layout.folders[0]}/ with {', '.join(file.name for file in layout.files)}"
            + (f" (or {layout.archive.name})" if layout.archive is not None else "")
            for layout in self.layouts
        ]
        return f"expected is {'; or '.join(forms)}"

    def how_to_get(self, root: Path) -> str:
        """What to do when it is missing, as the end of a message."""
        command = f"To get it: adamplus data download {self.name} --data {root}. " if self.ways else ""
        return f"{command}{self.advice}".strip()
