"""What the tasks on WikiText-2 share: windows of text, the recurrent model and its schedule."""

from functools import cache
from pathlib import Path
from typing import ClassVar

from torch import Tensor, nn

from ..data import data_root, wikitext
from ..models import LanguageModel, forget
from ._paper import is_scheduled, saturations
from ._perplexity import with_perplexity
from ._task import Moment, Split, Task

STREAMS, LENGTH = 20, 35


class Text(Task):
    """Which word is next. A row is a window of all parallel streams, [streams, length]: a batch of one is a step."""

    epochs = 40
    batch = 1
    metric = "perplexity"
    better = "lower"
    ordered = True
    clip = 0.25

    paper: ClassVar[bool] = False
    """Whether Adam's rates stay, as in the paper."""
    width: ClassVar[int] = 650

    def data(self) -> dict[str, Split]:
        """Windows of the three texts; the last words of a text that fill no window are left."""
        return _splits(data_root())[0]

    def model(self) -> nn.Module:
        """Two layers of 650; vectors of words and weights of the output are not tied."""
        return LanguageModel(_splits(data_root())[1], streams=STREAMS, width=self.width)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of a word."""
        return nn.functional.cross_entropy(outputs.flatten(0, -2), y.flatten())

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """Perplexity, exp(loss), beside the loss."""
        return with_perplexity(means)

    def schedule(self, now: Moment) -> dict[str, float]:
        """Rate, and β where there is one, over 4 after each epoch that did not lower the validation loss."""
        if not is_scheduled(now.optimizer, self.paper):
            return {}
        factor = 0.25 ** saturations(now.history)
        return {"lr": factor, "beta": factor}

    def begin(self, model: nn.Module) -> None:
        """Forget the text of the last pass."""
        forget(model)


@cache
def _splits(root: Path) -> tuple[dict[str, Split], int]:
    """The splits, and the number of words."""
    words = wikitext.read(root)
    texts = {"train": words.train, "validation": words.validation, "test": words.test}
    return {name: _windows(text) for name, text in texts.items()}, len(words.vocabulary)


def _windows(numbers: Tensor) -> Split:
    """Words and those that follow, [windows, streams, length]; window i + 1 goes on where window i ends."""
    windows = (len(numbers) - 1) // (STREAMS * LENGTH)
    shape, used = (STREAMS, windows, LENGTH), windows * STREAMS * LENGTH
    x, y = (numbers[i : i + used].view(shape).transpose(0, 1).contiguous() for i in (0, 1))
    return x, y
