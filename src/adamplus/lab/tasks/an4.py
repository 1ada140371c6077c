"""AN4, spelled and spoken words, with a bidirectional LSTM; as in the paper, or with speakers held out."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from ..data import data_root
from ..data.alignment import AlignedCorpus, AlignedUtterance, chunks, read_aligned
from ..errors import InputError
from .speech import Speech
from .task import Split

HELD_OUT = 10
"""One training speaker in this many is for validation, if there is validation."""


class An4(Speech):
    """AN4, states of triphones from 13 cepstra with deltas; bidirectional LSTM of six layers; pieces of 21 frames.

    Validation and test data have other speakers than training data.
    """

    paper_description = (
        "AN4, all speakers to train, cepstra with deltas; bidirectional LSTM of six layers; Adam's rate constant."
    )

    @property
    def states(self) -> int:
        """Number of triphone states, tied by how often they occur in training sentences."""
        return _aligned(data_root()).classes

    def data(self) -> dict[str, Split]:
        """Windows of the training and test utterances that AN4 lists."""
        return _splits(data_root(), self.paper)


@cache
def _aligned(root: Path) -> AlignedCorpus:
    return read_aligned(root)


@cache
def _splits(root: Path, paper: bool) -> dict[str, Split]:
    found = _aligned(root)
    if paper:
        return {"train": _windows(found.train), "test": _windows(found.test)}
    speakers = sorted({one.speaker for one in found.train})
    if len(speakers) < 2:
        raise InputError(
            f"AN4 in {root} has only one training speaker, so none can be held out for validation: use an4-paper"
        )
    held = set(speakers[::HELD_OUT])
    train, validation = ([one for one in found.train if (one.speaker in held) is is_held] for is_held in (False, True))
    return {"train": _windows(train), "validation": _windows(validation), "test": _windows(found.test)}


def _windows(utterances: Sequence[AlignedUtterance]) -> Split:
    features = torch.cat([chunks(one.features) for one in utterances])
    return features, torch.cat([chunks(one.states) for one in utterances])
