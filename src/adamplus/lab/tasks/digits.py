"""The handwritten digits of scikit-learn, 8×8 pixels, with a small convolutional network."""

from functools import cache
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from .task import Split, Task

TRAIN, VALIDATION = 1197, 300  # rows of 1,797; the other 300 are test data


class Digits(Task):
    """scikit-learn's handwritten digits (8×8 pixels, ten classes), a convolutional network of two layers."""

    epochs = 10
    batch = 64
    metric = "accuracy"
    better: ClassVar[Literal["lower", "higher"]] = "higher"
    target: ClassVar[float | None] = 0.97

    def data(self) -> dict[str, Split]:
        """1,197 images for training, 300 for validation and 300 for the test."""
        return _splits()

    def model(self) -> nn.Module:
        """Two convolutions and a linear layer to the ten classes: 7,690 parameters."""
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
        """Accuracy."""
        return {"accuracy": (outputs.argmax(1) == y).float().mean()}


@cache
def _splits() -> dict[str, Split]:
    from sklearn.datasets import load_digits  # takes half a second, which other tasks need not wait

    digits: Any = load_digits()
    # scikit-learn's order is by writer, and every split should have images of every writer
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    x = (torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16)[order]
    y = torch.tensor(digits.target, dtype=torch.int64)[order]
    ends = (0, TRAIN, TRAIN + VALIDATION, len(y))
    parts = zip(("train", "validation", "test"), ends, ends[1:], strict=False)
    return {name: (x[start:end], y[start:end]) for name, start, end in parts}
