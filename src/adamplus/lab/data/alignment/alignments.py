"""AN4 with a tied state for every frame; the alignment, which takes minutes, is stored beside the data."""

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
from ..._store import digest, replace_file
from ...errors import InputError
from ..readers import an4
from .aligner import Item, align
from .features import deltas, normalized
from .states import Tying, sentence

FOLDER = ".alignments"
"""The folder of stored alignments, under the root of all data."""


class AlignedUtterance(NamedTuple):
    """An utterance with a class for every frame."""

    speaker: str
    features: Tensor
    """13 cepstra, their deltas and the deltas of these: [frames, 39]."""
    states: Tensor
    """The class of every frame: [frames]."""


class AlignedCorpus(NamedTuple):
    """Both splits of AN4, and the number of classes."""

    train: tuple[AlignedUtterance, ...]
    test: tuple[AlignedUtterance, ...]
    classes: int


def read_aligned(root: Path) -> AlignedCorpus:
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
            problem = f"{len(short)} of {len(made)} {split} utterances have fewer frames than states and are left out"
            say(console(), f"AN4 in {root}: {problem} ({some})")
        if not kept:
            raise InputError(f"AN4 in {root}: every {split} utterance has fewer frames than its words have states")
        names[split], items[split] = [name for name, _ in kept], [item for _, item in kept]
    tying = Tying.of((item.sentence for item in items["train"]), found.phones)
    paths = _paths(items["train"], items["test"], root)
    splits = {"train": paths[: len(items["train"])], "test": paths[len(items["train"]) :]}
    spoken = {
        split: tuple(
            AlignedUtterance(_speaker(name), item.features, torch.tensor(tying.of_places(item.sentence))[path])
            for name, item, path in zip(names[split], items[split], splits[split], strict=True)
        )
        for split in items
    }
    return AlignedCorpus(spoken["train"], spoken["test"], tying.classes)


def _paths(train: Sequence[Item], test: Sequence[Item], root: Path) -> list[Tensor]:
    """The alignment of all utterances, from the file of an earlier call if it had the same data and code."""
    path = root / FOLDER / f"an4-{_digest(train, test)}.pt"
    with _locked(path):
        if (stored := _stored(path, (*train, *test))) is not None:
            return stored
        made = align(train, test)[0]
        torch.save(made, content := io.BytesIO())
        with suppress(OSError):  # the disk may be full or read-only
            replace_file(path, content.getvalue())
        return made


def _stored(path: Path, items: Sequence[Item]) -> list[Tensor] | None:
    """The alignment in a file, or None if there is none that fits these utterances."""
    try:
        found = torch.load(path, weights_only=True)
        return found if all(_fits(one, item) for one, item in zip(found, items, strict=True)) else None
    except Exception:  # pickle and zip raise many kinds of errors for a damaged file
        return None


def _fits(path: Tensor, item: Item) -> bool:
    """Whether a path has a place for every frame and goes forward from the first place to the last."""
    ends = path[0] == 0 and path[-1] == len(item.sentence.contexts) - 1
    return len(path) == len(item.features) and bool(ends) and bool((path.diff() >= 0).all())


def _digest(train: Sequence[Item], test: Sequence[Item]) -> str:
    """Digest of this folder's code, without comments and docstrings, and of the utterances."""
    total = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        total.update(digest(path).encode())
    for item in (*train, *test):
        total.update(item.features.numpy().tobytes())
        total.update(repr(item.sentence.contexts).encode())
    total.update(str(len(train)).encode())
    return total.hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one of several runs align while the others wait for it."""
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            fcntl.flock(stack.enter_context(path.with_suffix(".lock").open("a+")), fcntl.LOCK_EX)
        yield


def _speaker(name: str) -> str:
    """The speaker in a name such as an251-fash-b; the whole name if it has no speaker."""
    parts = name.split("-")
    return parts[1] if len(parts) > 2 else name
