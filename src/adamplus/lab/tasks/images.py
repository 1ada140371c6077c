"""What the tasks on CIFAR-10 and CIFAR-100 share: images, augmentation, loss and schedule."""

from abc import abstractmethod
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ..data import cifar, data_root
from ..models import crop_and_flip
from .schedules import drops, is_scheduled
from .task import Moment, Split, Task

HELD_OUT = 10
"""One image of so many is for validation, where there is validation: 5,000 of 50,000."""
MEANS = {"cifar10": (0.4914, 0.4822, 0.4465), "cifar100": (0.5071, 0.4865, 0.4409)}
DEVIATIONS = {"cifar10": (0.2470, 0.2435, 0.2616), "cifar100": (0.2673, 0.2564, 0.2762)}
"""Of the training images' channels, as they are known of the official sets."""


class Cifar(Task):
    """Images of 32 × 32 pixels; a subclass says which, and what sees them."""

    epochs = 350
    batch = 128
    metric = "accuracy"
    better = "higher"
    train_rows = 0  # the running mean over the epoch is what the paper can have shown, and costs nothing
    evaluation_rows = 2000  # the last layers are small, and a GPU has idle parts with fewer

    set_name: ClassVar[Literal["cifar10", "cifar100"]]
    paper: ClassVar[bool] = False
    """Whether all images are trained on, with nothing held out to choose by, and Adam's rates stay, as in the paper."""

    @property
    def classes(self) -> int:
        """How many there are."""
        return int(self.set_name.removeprefix("cifar"))

    @abstractmethod
    def model(self) -> nn.Module:
        """A network of as many classes."""

    def data(self) -> dict[str, Split]:
        """Images less their mean, over their standard deviation."""
        return _splits(self.set_name, data_root(), self.paper)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy."""
        return nn.functional.cross_entropy(outputs, y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The part of the images that is recognised."""
        return {"accuracy": (outputs.argmax(1) == y).float().mean()}

    def augment(self, x: Tensor) -> Tensor:
        """Moved by up to 4 pixels, and mirrored every other time."""
        return crop_and_flip(x)

    def schedule(self, now: Moment) -> dict[str, float]:
        """The rate over 10 from 150 epochs of 350 on, and over 10 again from 250 on."""
        return {"lr": 0.1 ** drops(now.epoch, now.epochs)} if is_scheduled(now.optimizer, self.paper) else {}


@cache
def _splits(name: Literal["cifar10", "cifar100"], root: Path, paper: bool) -> dict[str, Split]:
    found = cifar.read(name, root)
    mean, deviation = (torch.tensor(values[name]).view(1, 3, 1, 1) for values in (MEANS, DEVIATIONS))
    x, test = ((split.images.float() / 255 - mean) / deviation for split in found)
    if paper:
        return {"train": (x, found.train.labels), "test": (test, found.test.labels)}
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    held = len(x) // HELD_OUT
    rows = {"train": order[held:].sort().values, "validation": order[:held].sort().values}
    chosen = {split: (x[some], found.train.labels[some]) for split, some in rows.items()}
    return {**chosen, "test": (test, found.test.labels)}
