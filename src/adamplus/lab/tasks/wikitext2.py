"""WikiText-2 with a recurrent model of the next word, two layers of 650."""

from typing import ClassVar

from torch import Tensor, nn

from ..data import data_root
from ..models import LanguageModel, forget
from .language import NextWord, in_streams, wikitext2
from .schedules import Experiment, saturations
from .task import Moment, Split

STREAMS, LENGTH = 20, 35


class Wikitext2(NextWord, Experiment):
    """WikiText-2, LSTM of two layers (650, untied, dropout 0.5); 20 streams of 35, clip 0.25.

    A row is a window of all parallel streams, [streams, length], so a batch of one row is a step. The set has
    validation text, so nothing is held out of its training text.
    """

    epochs = 40
    batch = 1
    ordered = True
    clip: ClassVar[float | None] = 0.25

    paper_description = (
        "WikiText-2, LSTM of two layers (650, untied, dropout 0.5); 20 streams of 35, clip 0.25; Adam's rate constant."
    )
    width: ClassVar[int] = 650

    def data(self) -> dict[str, Split]:
        """Windows of the three texts; the last words of a text are left out if they fill no window."""
        return wikitext2(data_root(), _windows)[0]

    def model(self) -> nn.Module:
        """An LSTM of two layers of 650; the embedding and the output do not share weights."""
        return LanguageModel(wikitext2(data_root(), _windows)[1], streams=STREAMS, width=self.width)

    def schedule(self, now: Moment) -> dict[str, float]:
        """The learning rate, and β if there is one, over 4 after each epoch that did not lower the validation loss."""
        if not self.is_scheduled(now.optimizer):
            return {}
        factor = 0.25 ** saturations(now.history)
        return {"lr": factor, "beta": factor}

    def begin(self, model: nn.Module) -> None:
        """Reset the model's memory of the text."""
        forget(model)


def _windows(numbers: Tensor) -> Split:
    return in_streams(numbers, STREAMS, LENGTH)
