"""ResNet18 on images with CIFAR-10's shape: random ones, for time is what is measured."""

import torch
from torch import Tensor, nn

from adamplus.lab.models import ResNet18
from adamplus.lab.models.augment import crop_and_flip
from adamplus.lab.tasks import Split, Task


class CifarShaped(Task):
    """ResNet18 on 50,000 random images of 32 × 32, with crops and flips; 10,000 to test."""

    epochs = 5
    batch = 128
    metric = "accuracy"
    better = "higher"
    train_rows = 0
    evaluation_rows = 2000

    def data(self) -> dict[str, Split]:
        """Random images and labels for training and test."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(60_000, 3, 32, 32, generator=generator)
        y = torch.randint(10, (60_000,), generator=generator)
        return {"train": (x[:50_000], y[:50_000]), "test": (x[50_000:], y[50_000:])}

    def model(self) -> nn.Module:
        """The CIFAR ResNet18."""
        return ResNet18()

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross entropy."""
        return nn.functional.cross_entropy(outputs.float(), y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Accuracy."""
        return {"accuracy": (outputs.argmax(1) == y).float().mean()}

    def augment(self, x: Tensor) -> Tensor:
        """Pad by 4, crop, flip."""
        return crop_and_flip(x)
