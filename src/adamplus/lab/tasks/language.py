"""What tasks on text share: predicting the next word, perplexity, and cutting a text into windows."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from torch import Tensor, nn

from ..data import wikitext
from ..errors import InputError
from .task import Split, Task


class NextWord(Task):
    """Prediction of the next word; the last dimension of a model's outputs has a score for every word."""

    metric = "perplexity"
    better: ClassVar[Literal["lower", "higher"]] = "lower"

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy per word."""
        return nn.functional.cross_entropy(outputs.flatten(0, -2), y.flatten().long())

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """The loss and the perplexity, exp(loss): infinity if that overflows, and NaN if the loss is NaN."""
        loss = means["loss"]
        return {**means, "perplexity": math.exp(loss) if loss < 700 else math.inf if loss == loss else loss}


def in_streams(numbers: Tensor, streams: int, length: int) -> Split:
    """Words and the words after them, [windows, streams, length]; window i + 1 continues window i in every stream."""
    windows = (len(numbers) - 1) // (streams * length)
    shape, used = (streams, windows, length), windows * streams * length
    x, y = (numbers[i : i + used].view(shape).transpose(0, 1).contiguous() for i in (0, 1))
    return x, y


@cache
def wikitext2(root: Path, cut: Callable[[Tensor], Split]) -> tuple[dict[str, Split], int]:
    """WikiText-2's splits, each cut into windows by `cut`, and the size of the vocabulary."""
    corpus = wikitext.read(root)
    texts = {"train": corpus.train, "validation": corpus.validation, "test": corpus.test}
    splits = {name: cut(text) for name, text in texts.items()}
    for name, (x, _) in splits.items():
        if not len(x):
            raise InputError(f"WikiText-2 in {root}: its {len(texts[name]):,} words of {name} text fill no window")
    return splits, len(corpus.vocabulary)
