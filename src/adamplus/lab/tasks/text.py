"""What the tasks on WikiText-2 share: windows of text, the recurrent model and its schedule."""

from typing import ClassVar

from torch import Tensor, nn

from ..data import data_root
from ..models import LanguageModel, forget
from .schedules import is_scheduled, saturations
from .task import Moment, Split
from .words import Words, in_streams, wikitext2

STREAMS, LENGTH = 20, 35


class Text(Words):
    """Which word is next. A row is a window of all parallel streams, [streams, length]: a batch of one is a step."""

    epochs = 40
    batch = 1
    ordered = True
    clip = 0.25

    paper: ClassVar[bool] = False
    """Whether Adam's rates stay, as in the paper."""
    width: ClassVar[int] = 650

    def data(self) -> dict[str, Split]:
        """Windows of the three texts; the last words of a text that fill no window are left."""
        return wikitext2(data_root(), _windows)[0]

    def model(self) -> nn.Module:
        """Two layers of 650; vectors of words and weights of the output are not tied."""
        return LanguageModel(wikitext2(data_root(), _windows)[1], streams=STREAMS, width=self.width)

    def schedule(self, now: Moment) -> dict[str, float]:
        """Rate, and β where there is one, over 4 after each epoch that did not lower the validation loss."""
        if not is_scheduled(now.optimizer, self.paper):
            return {}
        factor = 0.25 ** saturations(now.history)
        return {"lr": factor, "beta": factor}

    def begin(self, model: nn.Module) -> None:
        """Forget the text of the last pass."""
        forget(model)


def _windows(numbers: Tensor) -> Split:
    return in_streams(numbers, STREAMS, LENGTH)
