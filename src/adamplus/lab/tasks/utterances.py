"""What the tasks on AN4 share: aligned utterances in pieces, by speakers."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from ..data import data_root
from ..data.alignment import Aligned, Spoken, aligned, chunks
from ..errors import InputError
from .speech import Speech
from .task import Split

HELD_OUT = 10
"""Every so many-th training speaker is for validation, where there is validation."""


class Utterances(Speech):
    """AN4; the held-out data of both kinds is of speakers that training data does not have."""

    @property
    def states(self) -> int:
        """Of triphones, tied by how often training sentences have them."""
        return _aligned(data_root()).classes

    def data(self) -> dict[str, Split]:
        """AN4's own lists of training and test utterances."""
        return _splits(data_root(), self.paper)


@cache
def _aligned(root: Path) -> Aligned:
    return aligned(root)


@cache
def _splits(root: Path, paper: bool) -> dict[str, Split]:
    found = _aligned(root)
    if paper:
        return {"train": _pieces(found.train), "test": _pieces(found.test)}
    speakers = sorted({one.speaker for one in found.train})
    if len(speakers) < 2:
        raise InputError(f"AN4 under {root} has one speaker, of whom none can be held out: an4-paper holds out nobody")
    held = set(speakers[::HELD_OUT])
    train, validation = ([one for one in found.train if (one.speaker in held) is is_held] for is_held in (False, True))
    return {"train": _pieces(train), "validation": _pieces(validation), "test": _pieces(found.test)}


def _pieces(utterances: Sequence[Spoken]) -> Split:
    features = torch.cat([chunks(one.features) for one in utterances])
    return features, torch.cat([chunks(one.states) for one in utterances])
