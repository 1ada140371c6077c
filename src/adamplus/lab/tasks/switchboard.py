"""What the tasks on SWB-300 share: Kaldi's archives in pieces."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from ..data import data_root, kaldi
from ..data.alignment import FRAMES, chunks
from ..errors import InputError
from .speech import Speech
from .task import Split

HELD_OUT = 50
"""Every so many-th training utterance is for validation, where there is validation: 6 hours of 300."""


class Switchboard(Speech):
    """SWB-300, for who has it; all of it is held in memory, and on the accelerator, in half precision."""

    count: ClassVar[int] = kaldi.STATES
    """Of states."""

    @property
    def states(self) -> int:
        """As many as the alignments may have."""
        return self.count

    def data(self) -> dict[str, Split]:
        """Training speech, and the held-out speech that the paper tells of."""
        return _splits(data_root(), self.count, self.paper)


@cache
def _splits(root: Path, states: int, paper: bool) -> dict[str, Split]:
    found = kaldi.read(root, states)
    test = _pieces(found.heldout, found.heldout.names)
    if (train := found.train[found.train.names[0]].features.shape[1]) != (other := test[0].shape[2]):
        raise InputError(f"{found.train.folder} has {train} values a frame, and {found.heldout.folder} has {other}")
    if paper:
        return {"train": _pieces(found.train, found.train.names), "test": test}
    held = found.train.names[::HELD_OUT]
    rest = [name for i, name in enumerate(found.train.names) if i % HELD_OUT]
    if not rest:
        raise InputError(f"{found.train.folder}: {len(held)} utterance is too few to hold one of {HELD_OUT} out")
    return {"train": _pieces(found.train, rest), "validation": _pieces(found.train, held), "test": test}


def _pieces(archives: kaldi.Archives, names: Iterable[str]) -> Split:
    x: list[Tensor] = []
    y: list[Tensor] = []
    for name in names:
        features, states = archives[name]
        half = features.half()
        if not half.isfinite().all():
            largest = features.abs().max().item()
            raise InputError(
                f"{archives.folder}: utterance {name} has a feature of size {largest:,.0f}, and half precision, in "
                "which they are held, ends at 65,504: normalise them"
            )
        x.append(chunks(half))
        y.append(chunks(states))
    if not any(map(len, x)):
        raise InputError(f"{archives.folder}: of {len(x):,} utterances none is as long as a piece, {FRAMES} frames")
    return torch.cat(x), torch.cat(y)
