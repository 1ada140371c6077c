"""Handwritten digits of 8×8 pixels, which come with scikit-learn; a small convolutional network."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from .task import Split, Task

TRAIN, VALIDATION = 1197, 300  # of 1,797; the other 300 are for the test


class Digits(Task):
    """scikit-learn's handwritten digits (8×8 pixels, ten classes), a convolutional network of two layers."""

    epochs = 10
    batch = 64
    metric = "accuracy"
    better = "higher"
    target = 0.97

    def data(self) -> dict[str, Split]:
        """1,197 images to train, 300 to choose settings by, 300 to tell."""
        return _splits()

    def model(self) -> nn.Module:
        """Two convolutions, and one layer from what they see to the ten classes: 7,690 parameters."""
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(288, 10),
        )

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy."""
        return nn.functional.cross_entropy(outputs, y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The part of the images that is recognised."""
        return {"accuracy": (outputs.argmax(1) == y).float().mean()}


@cache
def _splits() -> dict[str, Split]:
    from sklearn.datasets import load_digits  # half a second, which only this task should cost

    digits: Any = load_digits()
    # scikit-learn has them in the order of their writers, of whom every split should have some
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    x = (torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16)[order]
    y = torch.tensor(digits.target, dtype=torch.int64)[order]
    ends = (0, TRAIN, TRAIN + VALIDATION, len(y))
    parts = zip(("train", "validation", "test"), ends, ends[1:], strict=False)
    return {name: (x[start:end], y[start:end]) for name, start, end in parts}
