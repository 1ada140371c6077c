"""The topics of Python's manual, which come with Python, with a recurrent model of the next word."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..models import StackedLSTM, forget
from .language import NextWord, in_streams
from .task import Split

STREAMS, LENGTH = 16, 16
LAYERS, WIDTH, DROPOUT = 2, 48, 0.1
WORDS = 50_000  # of 70,000 or more: the same number in every Python, and few enough for runs of seconds
TRAIN, VALIDATION = 35_000, 7_500  # words, one after the other; the rest is test data
SEEN = 10  # a rarer word of the training text is <unk>


class Model(nn.Module):
    """An embedding, two LSTM layers with dropout, and an output layer that is not tied to the embedding.

    The layers remember the window before, so the windows of a text must come in order.
    """

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding: nn.Embedding = nn.Embedding(words, WIDTH)
        self.dropout: nn.Dropout = nn.Dropout(DROPOUT)
        self.lstm: StackedLSTM = StackedLSTM(WIDTH, WIDTH, LAYERS, STREAMS, DROPOUT)
        self.norm: nn.LayerNorm = nn.LayerNorm(WIDTH)
        self.output: nn.Linear = nn.Linear(WIDTH, words)

    def forward(self, x: Tensor) -> Tensor:
        """Words [windows, streams, length] to scores of the next word [windows, streams, length, words]."""
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
    target: ClassVar[float | None] = 50.0  # a bigram model reaches 48, a unigram model 91
    ordered = True
    clip: ClassVar[float | None] = 0.25

    def data(self) -> dict[str, Split]:
        """Windows of three consecutive parts of the text, without the last words of a part that fill no window."""
        return _splits()[0]

    def model(self) -> nn.Module:
        """A model of the words that are frequent in the training text."""
        return Model(_splits()[1])

    def begin(self, model: nn.Module) -> None:
        """Reset the model's memory of the text."""
        forget(model)


@cache
def _splits() -> tuple[dict[str, Split], int]:
    """The splits and the size of the vocabulary."""
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
    """Lower-case words and punctuation. A repeated paragraph is left out, so that test text is unseen."""
    seen = set()
    for topic in topics:
        for paragraph in re.split(r"\n\s*\n", topic):
            words = tuple(re.findall(r"\w+|[^\w\s]+", paragraph.lower()))
            if words not in seen:
                yield from words
            seen.add(words)
