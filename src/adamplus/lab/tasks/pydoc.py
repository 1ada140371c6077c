"""The English text that comes with Python, its manual's topics; a recurrent model of which word is next."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice

import torch
from torch import Tensor, nn

from ..models import StackedLSTM, forget
from .language import NextWord, in_streams
from .task import Split

STREAMS, LENGTH = 16, 16
LAYERS, WIDTH, DROPOUT = 2, 48, 0.1
WORDS = 50_000  # of 70,000 or more: as many in every Python, and a run takes seconds
TRAIN, VALIDATION = 35_000, 7_500  # of these, one after the other; the rest is for the test
SEEN = 10  # times that training text must have a word, for it to be one


class Model(nn.Module):
    """Words to vectors, two LSTM layers with dropout, and back to words (by weights of its own, not tied).

    The layers remember the window before, so the windows of a text have to come in their order.
    """

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.lstm = StackedLSTM(WIDTH, WIDTH, LAYERS, STREAMS, DROPOUT)
        self.norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, words)

    def forward(self, x: Tensor) -> Tensor:
        """From words [windows, streams, length] to the scores of what is next, with one dimension more."""
        windows, streams, length = x.shape
        in_time = x.transpose(0, 1).reshape(streams, windows * length)
        outputs = self.lstm(self.dropout(self.embedding(in_time)))
        scores = self.output(self.dropout(self.norm(outputs)))
        return scores.unflatten(1, (windows, length)).transpose(0, 1)


class Pydoc(NextWord):
    """Which word is next in the manual that comes with Python (pydoc), an LSTM of two layers.

    A row is a window of all parallel streams, [streams, length], so a batch of one row is a step.
    """

    epochs = 5
    batch = 1
    target = 50.0  # by the word before alone, 48; by how frequent words are, 91
    ordered = True
    clip = 0.25

    def data(self) -> dict[str, Split]:
        """Windows of three consecutive parts of the text; the last words of a part that fill no window are left."""
        return _splits()[0]

    def model(self) -> nn.Module:
        """A model of as many words as the training text has."""
        return Model(_splits()[1])

    def begin(self, model: nn.Module) -> None:
        """Forget the text of the last pass."""
        forget(model)


@cache
def _splits() -> tuple[dict[str, Split], int]:
    """The splits, and the number of words."""
    from pydoc_data.topics import topics

    text = list(islice(_words(topics[name] for name in sorted(topics)), WORDS))
    ends = (0, TRAIN, TRAIN + VALIDATION, len(text))
    counts = Counter(text[: ends[1]])
    known = ["<unk>", *sorted(word for word, count in counts.items() if count >= SEEN)]
    number = {word: i for i, word in enumerate(known)}
    numbers = torch.tensor([number.get(word, 0) for word in text])
    parts = zip(("train", "validation", "test"), ends, ends[1:], strict=False)
    return {name: in_streams(numbers[start:end], STREAMS, LENGTH) for name, start, end in parts}, len(known)


def _words(topics: Iterable[str]) -> Iterable[str]:
    """Words and signs, in small letters; a paragraph that several topics have, once: tests are of unseen text."""
    seen = set()
    for topic in topics:
        for paragraph in re.split(r"\n\s*\n", topic):
            words = tuple(re.findall(r"\w+|[^\w\s]+", paragraph.lower()))
            if words not in seen:
                yield from words
            seen.add(words)
