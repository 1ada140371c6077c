"""Reader of 100 English Novels: bytes of the novels, split by novel."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..data_set import data_root
from ..sets import find
from .files import text_of

EVERY, VALIDATION, TEST = 20, 10, 20
"""Of every 20 novels in the order of their names, the 10th is for validation and the 20th for tests."""
MOST = 1 << 28
"""Most bytes of all novels together; the official ones have 78 million."""


class Corpus(NamedTuple):
    """Three texts, each a vector of bytes, with the novels in the order of their names."""

    train: Tensor
    validation: Tensor
    test: Tensor


def read(root: Path | None = None) -> Corpus:
    """Read the novels under a root.

    The official set has 71,138,674 bytes of training text (90 novels), 4,333,502 of validation text and 2,894,843 of
    test text (5 novels each).
    """
    with find("novels").reading(data_root(root)) as place:
        (files,) = place.layout.files
        paths = sorted(place.path.glob(files.name))
        if len(paths) < EVERY:
            raise InputError(f"{place.path} must have at least {EVERY} novels to divide into splits, got {len(paths)}")
        texts = {"train": bytearray(), "validation": bytearray(), "test": bytearray()}
        for number, path in enumerate(paths):
            texts[_split(number % EVERY + 1)] += _novel(path)
            if sum(map(len, texts.values())) > MOST:
                raise InputError(f"{place.path} has more than {MOST:,} bytes of novels")
        return Corpus(**{name: torch.from_numpy(np.frombuffer(text, np.uint8)) for name, text in texts.items()})


def _split(number: int) -> str:
    """The split of a novel, by its number among 20."""
    return {VALIDATION: "validation", TEST: "test"}.get(number, "train")


def _novel(path: Path) -> bytes:
    """The bytes of a novel, which must be UTF-8 text."""
    text = text_of(path)
    if not text.strip():
        raise InputError(f"{path} has no text")
    return text.encode()
