"""Reader of WikiText-2: words as numbers, in the order of the text."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import InputError
from ..data_set import data_root
from ..sets import find
from .files import lines_of

END = "<eos>"
UNKNOWN = "<unk>"


class Corpus(NamedTuple):
    """Three texts, each a vector of word numbers with an `<eos>` after every line."""

    train: Tensor
    validation: Tensor
    test: Tensor
    vocabulary: tuple[str, ...]
    """Words by their numbers, in the order in which they first occur in the training text."""


def read(root: Path | None = None) -> Corpus:
    """Read WikiText-2 under a root.

    The official set has 2,088,628, 217,646 and 245,569 words, and a vocabulary of 33,278.
    """
    with find("wikitext2").reading(data_root(root)) as place:
        train, validation, test = (place.path / file.name for file in place.layout.files)
        words = _words(train)
        vocabulary = tuple(dict.fromkeys(word for line in words for word in line))
        numbers = {word: number for number, word in enumerate(vocabulary)}
        return Corpus(
            torch.tensor([numbers[word] for line in words for word in line]),
            _numbered(validation, numbers),
            _numbered(test, numbers),
            vocabulary,
        )


def _words(path: Path) -> list[list[str]]:
    lines = [[*line.split(), END] for line in lines_of(path)]
    if all(len(line) == 1 for line in lines):
        raise InputError(f"{path} has no words")
    return lines


def _numbered(path: Path, numbers: dict[str, int]) -> Tensor:
    words = _words(path)
    unknown = numbers.get(UNKNOWN)
    if unknown is None:
        for i, line in enumerate(words, 1):
            if stranger := next((word for word in line if word not in numbers), None):
                raise InputError(f"{path}, line {i}: the training text has neither the word {stranger!r} nor {UNKNOWN}")
    return torch.tensor([numbers.get(word, unknown) for line in words for word in line])
