"""SWB-300, speech from Kaldi archives, with a bidirectional LSTM; as in the paper, or with utterances held out."""

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
"""One training utterance in this many is for validation, if there is validation: 6 hours of 300."""


class Swb300(Speech):
    """SWB-300, 32,000 states, bidirectional LSTM of six layers (512 a direction, projection 256); 21 frames.

    All speech is held in memory, and on the accelerator, in half precision.
    """

    paper_description = (
        "SWB-300, all training speech, bidirectional LSTM of six layers (512 a direction); Adam's rate constant."
    )
    tied_states: ClassVar[int] = kaldi.STATES

    @property
    def states(self) -> int:
        """Number of states that the alignments may have."""
        return self.tied_states

    def data(self) -> dict[str, Split]:
        """Windows of the training speech, and of the held-out speech that the paper reports."""
        return _splits(data_root(), self.tied_states, self.paper)


@cache
def _splits(root: Path, states: int, paper: bool) -> dict[str, Split]:
    speech = kaldi.read(root, states)
    test = _windows(speech.heldout, speech.heldout.names)
    if (train := speech.train[speech.train.names[0]].features.shape[1]) != (other := test[0].shape[2]):
        raise InputError(f"{speech.train.folder} has {train} values per frame, and {speech.heldout.folder} has {other}")
    if paper:
        return {"train": _windows(speech.train, speech.train.names), "test": test}
    held = speech.train.names[::HELD_OUT]
    rest = [name for i, name in enumerate(speech.train.names) if i % HELD_OUT]
    if not rest:
        raise InputError(f"{speech.train.folder}: {len(held)} utterance is too few to hold out one of {HELD_OUT}")
    return {"train": _windows(speech.train, rest), "validation": _windows(speech.train, held), "test": test}


def _windows(archives: kaldi.Archives, names: Iterable[str]) -> Split:
    x: list[Tensor] = []
    y: list[Tensor] = []
    for name in names:
        features, states = archives[name]
        half = features.half()
        if not half.isfinite().all():
            largest = features.abs().max().item()
            raise InputError(
                f"{archives.folder}: utterance {name} has a feature of size {largest:,.0f}, but features are held in "
                "half precision, which ends at 65,504: normalize them"
            )
        x.append(chunks(half))
        y.append(chunks(states))
    if not any(map(len, x)):
        raise InputError(
            f"{archives.folder}: none of its {len(x):,} utterances is as long as a window, {FRAMES} frames"
        )
    return torch.cat(x), torch.cat(y)
