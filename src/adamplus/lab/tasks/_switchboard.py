"""What the tasks on SWB-300 share: Kaldi's archives in pieces."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from .._errors import InputError
from ..data import data_root, kaldi
from ..speech import chunks
from ._speech import Speech
from ._task import Split

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
    test = _pieces(found.heldout)
    if (train := found.train[found.train.names[0]].features.shape[1]) != (other := test[0].shape[2]):
        raise InputError(f"{found.train.folder} has {train} values a frame, and {found.heldout.folder} has {other}")
    if paper:
        return {"train": _pieces(found.train), "test": test}
    held = set(found.train.names[::HELD_OUT])
    train, validation = (
        (found.train[name] for name in found.train.names if (name in held) is is_held) for is_held in (False, True)
    )
    return {"train": _pieces(train), "validation": _pieces(validation), "test": test}


def _pieces(utterances: Iterable[kaldi.Utterance]) -> Split:
    x: list[Tensor] = []
    y: list[Tensor] = []
    for one in utterances:
        x.append(chunks(one.features.half()))
        y.append(chunks(one.states))
    return torch.cat(x), torch.cat(y)
