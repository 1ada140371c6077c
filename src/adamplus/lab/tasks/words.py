"""What tasks on text share: which word is next, judged by perplexity, and how a text is cut into windows."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

from torch import Tensor, nn

from ..data import wikitext
from ..errors import InputError
from .task import Split, Task


class Words(Task):
    """Which word is next; a model's outputs have the scores of all words in their last dimension."""

    metric = "perplexity"
    better = "lower"

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of a word."""
        return nn.functional.cross_entropy(outputs.flatten(0, -2), y.flatten())

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """Perplexity, exp(loss), beside the loss: infinity where that is too large, and no number where it is none."""
        loss = means["loss"]
        return {**means, "perplexity": math.exp(loss) if loss < 700 else math.inf if loss == loss else loss}


def in_streams(numbers: Tensor, streams: int, length: int) -> Split:
    """Words and those that follow, [windows, streams, length]; window i + 1 goes on where window i ends."""
    windows = (len(numbers) - 1) // (streams * length)
    shape, used = (streams, windows, length), windows * streams * length
    x, y = (numbers[i : i + used].view(shape).transpose(0, 1).contiguous() for i in (0, 1))
    return x, y


@cache
def wikitext2(root: Path, cut: Callable[[Tensor], Split]) -> tuple[dict[str, Split], int]:
    """Its three texts, cut into windows, and the number of words."""
    words = wikitext.read(root)
    texts = {"train": words.train, "validation": words.validation, "test": words.test}
    splits = {name: cut(text) for name, text in texts.items()}
    for name, (x, _) in splits.items():
        if not len(x):
            raise InputError(f"WikiText-2 in {root}: its {len(texts[name]):,} words of {name} text fill no window")
    return splits, len(words.vocabulary)
