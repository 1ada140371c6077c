"""AN4 with a tied state for every frame; what takes minutes is kept beside the data."""

import fcntl
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..data import an4
from . import _aligner, _alignment, _features, _states
from ._aligner import Item, align
from ._features import deltas, normalized
from ._states import Tying, sentence

FOLDER = ".alignments"
"""Under the root of all data."""


class Spoken(NamedTuple):
    """An utterance that was aligned."""

    speaker: str
    features: Tensor
    """13 cepstra, their changes, and the changes of these: [frames, 39]."""
    states: Tensor
    """A class a frame."""


class Aligned(NamedTuple):
    """Both splits, and how many classes of states there are."""

    train: tuple[Spoken, ...]
    test: tuple[Spoken, ...]
    classes: int


def aligned(root: Path) -> Aligned:
    """Read AN4 under a root and align it; utterances with fewer frames than states are left out."""
    found = an4.read(root)
    items: dict[str, list[Item]] = {}
    names: dict[str, list[str]] = {}
    for split, utterances in (("train", found.train), ("test", found.test)):
        made = [
            (one.name, Item(normalized(deltas(one.features)), sentence(one.words, found.pronunciations)))
            for one in utterances
        ]
        kept = [(name, item) for name, item in made if len(item.features) >= len(item.sentence.mandatory())]
        names[split], items[split] = [name for name, _ in kept], [item for _, item in kept]
    tying = Tying.of((item.sentence for item in items["train"]), found.phones)
    paths = _paths(items["train"], items["test"], root)
    splits = {"train": paths[: len(items["train"])], "test": paths[len(items["train"]) :]}
    spoken = {
        split: tuple(
            Spoken(_speaker(name), item.features, torch.tensor(tying.of_places(item.sentence))[path])
            for name, item, path in zip(names[split], items[split], splits[split], strict=True)
        )
        for split in items
    }
    return Aligned(spoken["train"], spoken["test"], tying.classes)


def _paths(train: Sequence[Item], test: Sequence[Item], root: Path) -> list[Tensor]:
    """From the file of an earlier call, where there is one of the same data and the same code."""
    path = root / FOLDER / f"an4-{_digest(train, test)}.pt"
    try:
        path.parent.mkdir(exist_ok=True)
        with _alone(path):
            if (kept := _kept(path, [len(item.features) for item in (*train, *test)])) is not None:
                return kept
            made = align(train, test)[0]
            new = path.with_suffix(".new")
            torch.save(made, new)
            new.replace(path)
            return made
    except OSError:  # data on a disk that is not to be written to
        return align(train, test)[0]


def _kept(path: Path, frames: Sequence[int]) -> list[Tensor] | None:
    """Paths of so many frames; None where there are none, or others: these are made again."""
    try:
        found = torch.load(path, weights_only=True)
        return found if [len(one) for one in found] == list(frames) else None
    except Exception:  # whatever pickle and zip make of what somebody else has left there
        return None


def _digest(train: Sequence[Item], test: Sequence[Item]) -> str:
    digest = hashlib.sha256()
    for module in (_aligner, _alignment, _features, _states):
        digest.update(Path(str(module.__file__)).read_bytes())
    for item in (*train, *test):
        digest.update(item.features.numpy().tobytes())
        digest.update(repr(item.sentence.contexts).encode())
    digest.update(str(len(train)).encode())
    return digest.hexdigest()[:16]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let the first of several runs align; the others wait for it."""
    with path.with_suffix(".lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _speaker(name: str) -> str:
    """As in an251-fash-b; the whole name where there is none in it."""
    parts = name.split("-")
    return parts[1] if len(parts) > 2 else name
