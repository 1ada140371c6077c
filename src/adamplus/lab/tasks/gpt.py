"""WikiText-2 with a small GPT, for 1,200 steps; this task is not in the paper."""

from typing import ClassVar

from torch import Tensor, nn

from ..data import data_root
from ..models import GPT
from .language import NextWord, wikitext2
from .schedules import warm_up_and_cosine
from .task import Moment, Split

LENGTH = 256
WARM_UP = 1 / 12  # of the run


class Wikitext2GPT(NextWord):
    """WikiText-2, GPT of 6 layers, 384 wide (tied, dropout 0.1); 34 windows of 256, clip 1; warm-up and cosine."""

    epochs = 5
    batch = 34  # of 8,158 windows: 240 steps an epoch
    clip: ClassVar[float | None] = 1.0
    train_rows: ClassVar[int | None] = 0
    stepwise = True

    def data(self) -> dict[str, Split]:
        """Windows of the three texts; the last words of a text are left out if they fill no window."""
        return wikitext2(data_root(), _windows)[0]

    def model(self) -> nn.Module:
        """A GPT of 23.5 M parameters."""
        return GPT(wikitext2(data_root(), _windows)[1], LENGTH)

    def schedule(self, now: Moment) -> dict[str, float]:
        """A linear warm-up over the first twelfth (100 steps), then half a cosine; the same for every optimizer."""
        return {"lr": warm_up_and_cosine(now.progress, WARM_UP)}


def _windows(numbers: Tensor) -> Split:
    """Words and the words after them, [windows, length]."""
    used = (len(numbers) - 1) // LENGTH * LENGTH
    return numbers[:used].view(-1, LENGTH), numbers[1 : used + 1].view(-1, LENGTH)
