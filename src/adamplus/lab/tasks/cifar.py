"""CIFAR-10 with ResNet18 and CIFAR-100 with VGG19, as in the paper or with a tenth of the images held out."""

from abc import abstractmethod
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ..data import cifar, data_root
from ..models import VGG19, ResNet18, crop_and_flip
from .schedules import Experiment, drops
from .task import Moment, Split

HELD_OUT = 10
"""One training image in this many is for validation, if there is validation: 5,000 of 50,000."""
MEANS = {"cifar10": (0.4914, 0.4822, 0.4465), "cifar100": (0.5071, 0.4865, 0.4409)}
DEVIATIONS = {"cifar10": (0.2470, 0.2435, 0.2616), "cifar100": (0.2673, 0.2564, 0.2762)}
"""Means and standard deviations of the channels in the official training images."""


class Cifar(Experiment):
    """Classification of images of 32 × 32 pixels; a subclass names the data set and the network."""

    epochs = 350
    batch = 128
    metric = "accuracy"
    better: ClassVar[Literal["lower", "higher"]] = "higher"
    # The paper can only have shown the running mean over the epoch, which costs nothing.
    train_rows: ClassVar[int | None] = 0
    evaluation_rows: ClassVar[int | None] = 2000  # the last layers are small: with fewer rows, parts of a GPU are idle

    set_name: ClassVar[Literal["cifar10", "cifar100"]]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.set_name.removeprefix("cifar"))

    @abstractmethod
    def model(self) -> nn.Module:
        """A network with an output for each class."""

    def data(self) -> dict[str, Split]:
        """Images, normalized by the mean and standard deviation of each channel."""
        return _splits(self.set_name, data_root(), self.paper)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy."""
        return nn.functional.cross_entropy(outputs, y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Accuracy."""
        return {"accuracy": (outputs.argmax(1) == y).float().mean()}

    def augment(self, x: Tensor) -> Tensor:
        """Images shifted by up to 4 pixels, half of them mirrored."""
        return crop_and_flip(x)

    def schedule(self, now: Moment) -> dict[str, float]:
        """The learning rate over 10 after 150 of 350 epochs, and over 10 again after 250."""
        return {"lr": 0.1 ** drops(now.epoch, now.epochs)} if self.is_scheduled(now.optimizer) else {}


class Cifar10(Cifar):
    """CIFAR-10, 45,000 images to train and 5,000 to choose by; ResNet18; crops (4 pixels) and flips."""

    set_name: ClassVar[Literal["cifar10", "cifar100"]] = "cifar10"
    paper_description = (
        "CIFAR-10, all 50,000 images to train; ResNet18; crops (4 pixels) and flips; Adam's rate constant."
    )

    def model(self) -> nn.Module:
        """ResNet18."""
        return ResNet18(self.classes)


class Cifar100(Cifar):
    """CIFAR-100, 45,000 images to train and 5,000 to choose by; VGG19; crops (4 pixels) and flips."""

    set_name: ClassVar[Literal["cifar10", "cifar100"]] = "cifar100"
    paper_description = (
        "CIFAR-100, all 50,000 images to train; VGG19; crops (4 pixels) and flips; Adam's rate constant."
    )

    def model(self) -> nn.Module:
        """VGG19."""
        return VGG19(self.classes)


@cache
def _splits(name: Literal["cifar10", "cifar100"], root: Path, paper: bool) -> dict[str, Split]:
    images = cifar.read(name, root)
    mean, deviation = (torch.tensor(values[name]).view(1, 3, 1, 1) for values in (MEANS, DEVIATIONS))
    x, test = ((split.images.float() / 255 - mean) / deviation for split in images)
    if paper:
        return {"train": (x, images.train.labels), "test": (test, images.test.labels)}
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    held = len(x) // HELD_OUT
    rows = {"train": order[held:].sort().values, "validation": order[:held].sort().values}
    chosen = {split: (x[some], images.train.labels[some]) for split, some in rows.items()}
    return {**chosen, "test": (test, images.test.labels)}
