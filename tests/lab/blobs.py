"""A task that takes milliseconds and uses every feature of a task: two classes of small images."""

import torch
from torch import Tensor, nn

from adamplus.lab.tasks import Moment, Split, Task


class Blobs(Task):
    """Which half of an image is brighter."""

    epochs = 4
    batch = 16
    metric = "accuracy"
    better = "higher"
    target = 0.6

    def data(self) -> dict[str, Split]:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(300, 1, 4, 4, generator=generator)
        y = (x[:, 0, :2].sum((1, 2)) > x[:, 0, 2:].sum((1, 2))).long()
        return {"train": (x[:200], y[:200]), "validation": (x[200:250], y[200:250]), "test": (x[250:], y[250:])}

    def model(self) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(16, 2)
        )

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"accuracy": (outputs.argmax(1) == y).float().mean()}

    def augment(self, x: Tensor) -> Tensor:
        return x + 0.01 * torch.randn_like(x)

    def schedule(self, now: Moment) -> dict[str, float]:
        return {"lr": 1.0 if now.epoch < 2 else 0.1, "beta": 1.0}
