"""WikiText-2 by a small GPT, which the paper does not try; 1,200 steps."""

import math

from torch import Tensor, nn

from ..data import data_root
from ..models import GPT
from .task import Moment, Split
from .words import Words, wikitext2

LENGTH = 256
WARM_UP = 1 / 12


class Wikitext2GPT(Words):
    """WikiText-2, GPT of 6 layers, 384 wide (tied, dropout 0.1); 34 windows of 256, clip 1; warm-up and cosine."""

    epochs = 5
    batch = 34  # of 8,158 windows: 240 steps an epoch
    clip = 1.0
    train_rows = 0
    stepwise = True

    def data(self) -> dict[str, Split]:
        """Windows of the three texts; the last words of a text that fill no window are left."""
        return wikitext2(data_root(), _windows)[0]

    def model(self) -> nn.Module:
        """23.5 M parameters."""
        return GPT(wikitext2(data_root(), _windows)[1], LENGTH)

    def schedule(self, now: Moment) -> dict[str, float]:
        """Linearly up over the first twelfth (100 steps), and down by half a cosine; the same for everybody."""
        if now.progress < WARM_UP:
            return {"lr": max(now.progress, 0.0005) / WARM_UP}  # 0 would be a step to nowhere
        return {"lr": (1 + math.cos(math.pi * (now.progress - WARM_UP) / (1 - WARM_UP))) / 2}


def _windows(numbers: Tensor) -> Split:
    """Words and those that follow, [windows, length]."""
    used = (len(numbers) - 1) // LENGTH * LENGTH
    return numbers[:used].view(-1, LENGTH), numbers[1 : used + 1].view(-1, LENGTH)
