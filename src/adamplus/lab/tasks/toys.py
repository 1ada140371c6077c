"""Small versions of the paper's experiments, which check data and installation within seconds on a CPU.

They read the real data and have the experiments' losses, metrics and schedules, but a small model, a few rows and two
epochs. Their results say nothing about the optimizers.
"""

from typing import ClassVar

from torch import nn

from .an4 import An4
from .cifar import Cifar, Cifar10, Cifar100
from .schedules import Experiment
from .swb300 import Swb300
from .task import Split
from .wikitext2 import Wikitext2


class Toy(Experiment):
    """What is small in every toy; the experiment is the next base class."""

    epochs = 2
    rows: ClassVar[int] = 256
    """The most rows of each split."""

    def data(self) -> dict[str, Split]:
        """The first rows of each split."""
        return {name: (x[: self.rows], y[: self.rows]) for name, (x, y) in super().data().items()}


class ToyImages(Toy, Cifar):
    """Images and a small network with BatchNorm."""

    def model(self) -> nn.Module:
        """Two convolutions and a linear layer."""
        return nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, self.classes),
        )


class ToyCifar10(ToyImages, Cifar10):
    """A toy of CIFAR-10: 256 images and two convolutions. A check of the set-up."""

    paper_description = "A toy of CIFAR-10: 256 images and two convolutions. A check of the set-up."


class ToyCifar100(ToyImages, Cifar100):
    """A toy of CIFAR-100: 256 images and two convolutions. A check of the set-up."""

    paper_description = "A toy of CIFAR-100: 256 images and two convolutions. A check of the set-up."


class ToyWikitext2(Toy, Wikitext2):
    """A toy of WikiText-2: 4 windows and an LSTM of width 16. A check of the set-up."""

    paper_description = "A toy of WikiText-2: 4 windows and an LSTM of width 16. A check of the set-up."
    rows: ClassVar[int] = 4
    width: ClassVar[int] = 16


class ToyAn4(Toy, An4):
    """A toy of AN4: 256 pieces of 21 frames and an LSTM of width 16. A check of the set-up."""

    paper_description = "A toy of AN4: 256 pieces of 21 frames and an LSTM of width 16. A check of the set-up."
    layers: ClassVar[int] = 1
    width: ClassVar[int] = 16
    projection: ClassVar[int] = 16


class ToySwb300(Toy, Swb300):
    """A toy of SWB-300: 64 pieces of 21 frames and an LSTM of width 16. A check of the set-up."""

    paper_description = "A toy of SWB-300: 64 pieces of 21 frames and an LSTM of width 16. A check of the set-up."
    rows: ClassVar[int] = 64
    batch: ClassVar[int] = 16
    layers: ClassVar[int] = 1
    width: ClassVar[int] = 16
    projection: ClassVar[int] = 16
