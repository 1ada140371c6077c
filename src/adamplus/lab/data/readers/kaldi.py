"""Reader of Kaldi archives: features of several kinds and a state for every frame, joined by utterance."""

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..data_set import data_root
from ..sets import SPLITS, STREAMS, find
from .files import lines_of, size_of

STATES = 32_000
WIDTHS = {"fmllr": 40, "ivectors": 100}  # values per frame; logmel may have any multiple of 3
LONGEST_NAME = 4096


class Utterance(NamedTuple):
    """The features and states of an utterance."""

    features: Tensor
    """FMLLR, i-vector and logmel, concatenated: [frames, values]."""
    states: Tensor
    """A whole number per frame."""


class Entry(NamedTuple):
    """The place of an array: its archive and the first byte."""

    archive: Path
    offset: int


class Archives:
    """The utterances of one split, each read on access, because together they exceed most memories."""

    def __init__(self, folder: Path, states: int = STATES) -> None:
        self.folder: Path = folder
        self.states: int = states
        self._entries = {stream: _entries(folder, stream) for stream in STREAMS}
        self.names: tuple[str, ...] = tuple(self._entries[STREAMS[0]])
        self._logmel: int | None = None
        self._agree()

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Utterance]:
        return (self[name] for name in self.names)

    def __getitem__(self, name: str) -> Utterance:
        arrays = {stream: read_array(entries[name], f"{name} of {stream}") for stream, entries in self._entries.items()}
        frames = len(arrays["fmllr"])
        if arrays["ivectors"].ndim == 1:  # one vector for the whole utterance
            arrays["ivectors"] = np.broadcast_to(arrays["ivectors"], (frames, len(arrays["ivectors"])))
        for stream, array in arrays.items():
            if array.ndim != (1 if stream == "alignments" else 2):
                raise self._error(name, stream, f"an array of shape {list(array.shape)}")
            if len(array) != frames or frames == 0:
                raise self._error(name, stream, f"{len(array):,} frames, but fmllr has {frames:,}")
        self._check_widths(name, arrays)
        states = arrays.pop("alignments")
        if states.dtype.kind != "i" or states.min() < 0 or states.max() >= self.states:
            needed = f"whole numbers from 0 to {self.states - 1}"
            found = f"{states.dtype} from {states.min()} to {states.max()}"
            raise self._error(name, "alignments", f"states must be {needed}, got {found}")
        with np.errstate(all="ignore"):  # what is not finite is reported below
            features = np.concatenate([arrays[stream] for stream in STREAMS[:-1]], axis=1, dtype=np.float32)
        if not np.isfinite(features).all():
            raise InputError(f"{self.folder}: utterance {name} has features that are not finite")
        return Utterance(torch.from_numpy(features), torch.from_numpy(states.astype(np.int64)))

    def _agree(self) -> None:
        """Raise InputError unless all kinds of archives have the same utterances."""
        for stream in STREAMS[1:]:
            for lacking, having in ((stream, STREAMS[0]), (STREAMS[0], stream)):
                lacks = [name for name in self._entries[having] if name not in self._entries[lacking]]
                if lacks:
                    raise InputError(
                        f"{self.folder}: {lacking} lacks {len(lacks):,} of the {len(self._entries[having]):,} "
                        f"utterances of {having}, {', '.join(lacks[:3])}{' …' if lacks[3:] else ''}: keep the common "
                        f"ones, by Kaldi's utils/filter_scp.pl {lacking}.scp {having}.scp"
                    )
        if not self.names:
            raise InputError(f"{self.folder}: the archives have no utterances")

    def _check_widths(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        for stream, width in WIDTHS.items():
            if arrays[stream].shape[1] != width:
                raise self._error(name, stream, f"expected {width} values per frame, got {arrays[stream].shape[1]}")
        width = arrays["logmel"].shape[1]
        if width % 3 or width == 0:
            raise self._error(name, "logmel", f"values with two deltas must be a multiple of 3, got {width}")
        if self._logmel not in (None, width):
            raise self._error(name, "logmel", f"{width} values per frame, but {self._logmel} in an utterance before")
        self._logmel = width

    def _error(self, name: str, stream: str, problem: str) -> InputError:
        return InputError(f"{self.folder}: utterance {name}, {stream}: {problem}")


class Corpus(NamedTuple):
    """Both splits of SWB-300."""

    train: Archives
    heldout: Archives


def read(root: Path | None = None, states: int = STATES) -> Corpus:
    """Open SWB-300 under a root."""
    folder = find("swb300").locate(data_root(root)).path
    return Corpus(*(Archives(folder / split, states) for split in SPLITS))


def archives(table: Path) -> list[Path]:
    """The archives that a table (.scp) refers to."""
    return sorted({entry.archive for entry in _from_table(table).values()})


def read_array(entry: Entry, what: str) -> np.ndarray:
    """Read a binary array of Kaldi from an archive; kaldiio would also run commands and load pickles."""
    matio = _kaldiio()
    try:
        size = size_of(entry.archive)
        with entry.archive.open("rb") as file:
            file.seek(entry.offset)
            if file.read(2) != b"\0B":
                raise InputError(
                    f"{entry.archive}: {what}, at byte {entry.offset:,}, is not a binary array of Kaldi: "
                    "convert text archives by copy-feats and copy-int-vector"
                )
            file.seek(entry.offset)
            array = _array(file, size, matio)
    except OSError as error:
        raise InputError(f"{entry.archive} cannot be read ({error.strerror})") from error
    except InputError:
        raise
    except Exception as error:  # kaldiio and numpy raise many kinds of errors for a damaged array
        raise InputError(f"{entry.archive}: {what} is damaged ({type(error).__name__}: {error})") from error
    return array


def _array(file: IO[bytes], size: int, matio: Any) -> np.ndarray:
    """The binary array at the file's position; ValueError if the file's size is less than the array claims to need.

    kaldiio would reserve memory for all of it, and return a shorter vector.
    """
    start = file.tell()
    head = file.read(64)
    kind = head[2:].partition(b" ")[0]
    numbers = 3 + len(kind)  # where the sizes begin, each after a byte with their length in matrices and vectors
    if head[2:3] == b"\4":
        needed = 7 + 5 * struct.unpack_from("<i", head, 3)[0]
    elif kind in (b"FV", b"DV"):
        needed = numbers + 5 + VALUE_BYTES[kind] * struct.unpack_from("<xi", head, numbers)[0]
    elif kind in (b"FM", b"DM"):
        rows, columns = struct.unpack_from("<xixi", head, numbers)
        needed = numbers + 10 + VALUE_BYTES[kind] * _product(rows, columns)
    elif kind in (b"CM", b"CM2", b"CM3"):
        rows, columns = struct.unpack_from("<8xii", head, numbers)
        needed = numbers + 16 + VALUE_BYTES[kind] * _product(rows, columns) + 8 * columns * (kind == b"CM")
    else:
        raise ValueError(f"{kind[:8]!r} is no type of an array")
    if needed < 0 or needed > size - start:
        raise ValueError(f"it announces {needed:,} bytes, which the file does not have")
    file.seek(start)
    with np.errstate(all="ignore"):  # of compressed values that are not finite, which are reported later
        return np.asarray(matio.read_kaldi(file))


def _product(rows: int, columns: int) -> int:
    if rows < 0 or columns < 0:
        raise ValueError(f"it announces {rows:,} × {columns:,} values")
    return rows * columns


VALUE_BYTES = {b"FV": 4, b"FM": 4, b"DV": 8, b"DM": 8, b"CM": 1, b"CM2": 2, b"CM3": 1}


def _entries(folder: Path, stream: str) -> dict[str, Entry]:
    """The places of a stream's utterances: from the .scp if there is one, else by a pass over the .ark."""
    table, archive = folder / f"{stream}.scp", folder / f"{stream}.ark"
    return _from_table(table) if table.is_file() else _from_archive(archive)


def _from_table(path: Path) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for i, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        name, place = [*line.strip().split(maxsplit=1), ""][:2]
        if place.startswith("|") or place.endswith("|"):
            raise InputError(f"{path}, line {i}: commands are not run: write the arrays into an archive by copy-feats")
        match = re.fullmatch(r"(.+?):([0-9]{1,18})", place)
        if match is None:
            raise InputError(f"{path}, line {i} must be NAME ARCHIVE:BYTE, got {line.strip()!r}")
        if name in entries:
            raise InputError(f"{path}, line {i}: {name} occurs twice")
        archive = Path(match[1])
        beside = path.parent / archive  # tried first, so that the result does not depend on the current folder
        entries[name] = Entry(beside if os.path.isfile(beside) else archive, int(match[2]))
    return entries


def _from_archive(path: Path) -> dict[str, Entry]:
    matio = _kaldiio()
    entries: dict[str, Entry] = {}
    try:
        size = size_of(path)
        with path.open("rb") as file:
            while (name := _utterance_name(file)) is not None:
                if name in entries:
                    raise InputError(f"{path}: {name} occurs twice")
                entries[name] = Entry(path, file.tell())
                if file.read(2) != b"\0B":
                    place = f"{name!r}, at byte {entries[name].offset:,}"
                    raise InputError(f"{path}: {place}, is not a binary array of Kaldi")
                file.seek(-2, 1)
                _array(file, size, matio)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: the archive is damaged ({type(error).__name__}: {error})") from error
    return entries


def _utterance_name(file: IO[bytes]) -> str | None:
    """The name before the next array; None at the end of the archive."""
    start = file.tell()
    name, space, _ = file.read(LONGEST_NAME).partition(b" ")
    if not (name or space):
        return None
    if not (name and space):
        raise ValueError(f"byte {start:,} is not the beginning of an utterance's name")
    file.seek(start + len(name) + 1)
    return name.decode("utf-8")


def _kaldiio() -> Any:
    try:
        from kaldiio import matio
    except ModuleNotFoundError:
        raise InputError(
            "Kaldi archives need kaldiio, which is not installed: in your clone, run pip install -e '.[lab]'"
        ) from None
    return matio
