"""AN4 with a tied state for every frame; what takes minutes is kept beside the data."""

import fcntl
import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..._present import console, say
from ..._store import replace
from ...errors import InputError
from ..readers import an4
from . import aligner, viterbi
from . import features as _features
from . import states as _states
from .aligner import Item, align
from .features import deltas, normalized
from .states import Tying, sentence

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
        if short := [name for name, _ in made if name not in dict(kept)]:
            some = ", ".join([*short[:3], *["…"] * (len(short) > 3)])
            problem = "fewer frames than their words have states, and are left out"
            say(console(), f"AN4 in {root}: {len(short)} utterances to {split} have {problem} ({some})")
        if not kept:
            raise InputError(f"AN4 in {root}: no utterance to {split} has as many frames as its words have states")
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
    with _alone(path):
        if (kept := _kept(path, (*train, *test))) is not None:
            return kept
        made = align(train, test)[0]
        torch.save(made, content := io.BytesIO())
        with suppress(OSError):  # a disk that is full, or not to be written to
            replace(path, content.getvalue())
        return made


def _kept(path: Path, items: Sequence[Item]) -> list[Tensor] | None:
    """Paths through these sentences; None where there are none, or others: these are made again."""
    try:
        found = torch.load(path, weights_only=True)
        return found if all(_fits(one, item) for one, item in zip(found, items, strict=True)) else None
    except Exception:  # whatever pickle and zip make of what somebody else has left there
        return None


def _fits(path: Tensor, item: Item) -> bool:
    """Whether it has a place for every frame and goes forward, from the first to the last."""
    ends = path[0] == 0 and path[-1] == len(item.sentence.contexts) - 1
    return len(path) == len(item.features) and bool(ends) and bool((path.diff() >= 0).all())


def _digest(train: Sequence[Item], test: Sequence[Item]) -> str:
    digest = hashlib.sha256()
    for module in (aligner, viterbi, _features, _states):
        digest.update(Path(str(module.__file__)).read_bytes())
    for item in (*train, *test):
        digest.update(item.features.numpy().tobytes())
        digest.update(repr(item.sentence.contexts).encode())
    digest.update(str(len(train)).encode())
    return digest.hexdigest()[:16]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let the first of several runs align; the others wait for it."""
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            fcntl.flock(stack.enter_context(path.with_suffix(".lock").open("a+")), fcntl.LOCK_EX)
        yield


def _speaker(name: str) -> str:
    """As in an251-fash-b; the whole name where there is none in it."""
    parts = name.split("-")
    return parts[1] if len(parts) > 2 else name
