"""Kaldi archives of speech: features of several kinds and a state for every frame, joined by utterance."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..data_set import data_root
from ..sets import SPLITS, STREAMS, find
from .files import lines_of

STATES = 32_000
WIDTHS = {"fmllr": 40, "ivectors": 100}  # of a frame; logmel has as many as its owner chose, times three for deltas


class Utterance(NamedTuple):
    """What was said in one go."""

    features: Tensor
    """FMLLR, i-vector and logmel side by side, [frames, values]."""
    states: Tensor
    """A whole number a frame."""


class Entry(NamedTuple):
    """Where an array is: in which archive, from which byte."""

    archive: Path
    offset: int


class Archives:
    """The utterances of one split; each is read when it is asked for, as all of them are larger than memories."""

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
        if arrays["ivectors"].ndim == 1:  # one for the whole utterance
            arrays["ivectors"] = np.broadcast_to(arrays["ivectors"], (frames, len(arrays["ivectors"])))
        for stream, array in arrays.items():
            if array.ndim != (1 if stream == "alignments" else 2):
                raise self._error(name, stream, f"an array of the shape {list(array.shape)}")
            if len(array) != frames or frames == 0:
                raise self._error(name, stream, f"{len(array):,} frames, and fmllr has {frames:,}")
        self._check_widths(name, arrays)
        states = arrays.pop("alignments")
        if states.dtype.kind != "i" or states.min() < 0 or states.max() >= self.states:
            found = f"{states.dtype} from {states.min()} to {states.max()}"
            raise self._error(name, "alignments", f"{found}, and states are whole numbers from 0 to {self.states - 1}")
        features = np.concatenate([arrays[stream] for stream in STREAMS[:-1]], axis=1, dtype=np.float32)
        if not np.isfinite(features).all():
            raise InputError(f"{self.folder}: utterance {name} has features that are no numbers")
        return Utterance(torch.from_numpy(features), torch.from_numpy(states.astype(np.int64)))

    def _agree(self) -> None:
        """Every kind of archive has the same utterances."""
        for stream in STREAMS[1:]:
            for lacking, having in ((stream, STREAMS[0]), (STREAMS[0], stream)):
                lacks = [name for name in self._entries[having] if name not in self._entries[lacking]]
                if lacks:
                    raise InputError(
                        f"{self.folder}: {lacking} lacks {len(lacks):,} of the {len(self._entries[having]):,} "
                        f"utterances of {having}, {', '.join(lacks[:3])}{' …' if lacks[3:] else ''}: keep those that "
                        f"all have, by Kaldi's utils/filter_scp.pl {lacking}.scp {having}.scp"
                    )
        if not self.names:
            raise InputError(f"{self.folder}: there is no utterance in its archives")

    def _check_widths(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        for stream, width in WIDTHS.items():
            if arrays[stream].shape[1] != width:
                raise self._error(name, stream, f"{arrays[stream].shape[1]} values a frame, and {width} are expected")
        width = arrays["logmel"].shape[1]
        if width % 3:
            raise self._error(name, "logmel", f"{width} values a frame, and with two deltas they are a multiple of 3")
        if self._logmel not in (None, width):
            raise self._error(name, "logmel", f"{width} values a frame, and {self._logmel} in an utterance before")
        self._logmel = width

    def _error(self, name: str, stream: str, problem: str) -> InputError:
        return InputError(f"{self.folder}: utterance {name}, {stream}: {problem}")


class Corpus(NamedTuple):
    """Both splits."""

    train: Archives
    heldout: Archives


def read(root: Path | None = None, states: int = STATES) -> Corpus:
    """SWB-300 under a root, as its owners have it."""
    folder = find("swb300").locate(data_root(root)).path
    return Corpus(*(Archives(folder / split, states) for split in SPLITS))


def archives(table: Path) -> list[Path]:
    """The archives that a table, an .scp, points into."""
    return sorted({entry.archive for entry in _from_table(table).values()})


def read_array(entry: Entry, what: str) -> np.ndarray:
    """One array of an archive. Only Kaldi's binary arrays: kaldiio would also run commands and load pickles."""
    matio = _kaldiio()
    try:
        with entry.archive.open("rb") as file:
            file.seek(entry.offset)
            if file.read(2) != b"\0B":
                raise InputError(
                    f"{entry.archive}: {what}, at byte {entry.offset:,}, is no binary array of Kaldi: "
                    "text archives become binary by copy-feats and copy-int-vector"
                )
            file.seek(entry.offset)
            array = matio.read_kaldi(file)
    except OSError as error:
        raise InputError(f"{entry.archive} cannot be read ({error.strerror})") from error
    except InputError:
        raise
    except Exception as error:  # whatever kaldiio and numpy make of half an array
        raise InputError(f"{entry.archive}: {what} is damaged ({type(error).__name__}: {error})") from error
    return np.asarray(array)


def _entries(folder: Path, stream: str) -> dict[str, Entry]:
    """Where the utterances are: told by the .scp where there is one, else found by going through the .ark."""
    table, archive = folder / f"{stream}.scp", folder / f"{stream}.ark"
    return _from_table(table) if table.is_file() else _from_archive(archive)


def _from_table(path: Path) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for i, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        name, place = [*line.strip().split(maxsplit=1), ""][:2]
        if place.startswith("|") or place.endswith("|"):
            raise InputError(f"{path}, line {i}: a command is not run; write the arrays into an archive by copy-feats")
        match = re.fullmatch(r"(.+?):(\d+)", place)
        if match is None:
            raise InputError(f"{path}, line {i}: {line.strip()!r} should be NAME ARCHIVE:BYTE")
        if name in entries:
            raise InputError(f"{path}, line {i}: {name} is there a second time")
        archive = Path(match[1])
        beside = path.parent / archive  # first, or what is read would depend on the folder that one is in
        entries[name] = Entry(beside if beside.is_file() else archive, int(match[2]))
    return entries


def _from_archive(path: Path) -> dict[str, Entry]:
    matio = _kaldiio()
    entries: dict[str, Entry] = {}
    try:
        with path.open("rb") as file:
            while (name := matio.read_token(file)) is not None:
                entries[name] = Entry(path, file.tell())
                if file.read(2) != b"\0B":
                    raise InputError(f"{path}: {name!r}, at byte {entries[name].offset:,}, is no binary array of Kaldi")
                file.seek(-2, 1)
                matio.read_kaldi(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: the archive is damaged ({type(error).__name__}: {error})") from error
    return entries


def _kaldiio() -> Any:
    try:
        from kaldiio import matio
    except ModuleNotFoundError:
        raise InputError("Kaldi archives need kaldiio, which is not installed: pip install 'adamplus[lab]'") from None
    return matio
