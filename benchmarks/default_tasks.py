"""Tasks of `defaults.py` that the lab does not have: a small network of each kind that people train."""

from functools import cache
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from adamplus.lab import tasks
from adamplus.lab.tasks import Split, Task


class Classification(Task):
    """Classification, measured by accuracy."""

    metric = "accuracy"
    better: ClassVar[Literal["lower", "higher"]] = "higher"

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy."""
        return nn.functional.cross_entropy(outputs, y)

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Accuracy."""
        return {"accuracy": (outputs.argmax(1) == y).float().mean()}


class Mlp(Classification):
    """scikit-learn's digits, a perceptron with layers of 128 and 64."""

    epochs = 20
    batch = 64

    def data(self) -> dict[str, Split]:
        """The splits of the lab's digits."""
        return tasks.find("digits")[0].data()

    def model(self) -> nn.Module:
        """64 inputs, layers of 128 and 64, ten classes."""
        sizes = (nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
        return nn.Sequential(nn.Flatten(), *sizes)


class Bert(Classification):
    """Which quarter of the vocabulary a sentence of 16 words prefers, a BERT of two layers with random weights."""

    epochs = 4
    batch = 32
    train_rows: ClassVar[int | None] = 0
    words: ClassVar[int] = 64

    def data(self) -> dict[str, Split]:
        """2,048 sentences to train, and 512 each for validation and test."""
        generator = torch.Generator().manual_seed(0)
        y = torch.randint(4, (3072,), generator=generator)
        quarter = torch.randint(4, (3072, 16), generator=generator)
        quarter = torch.where(torch.rand(3072, 16, generator=generator) < 0.4, y[:, None], quarter)
        x = 16 * quarter + torch.randint(16, (3072, 16), generator=generator)
        ends = {"train": slice(0, 2048), "validation": slice(2048, 2560), "test": slice(2560, 3072)}
        return {name: (x[rows], y[rows]) for name, rows in ends.items()}

    def model(self) -> nn.Module:
        """A BERT of two layers of 64 with four heads."""
        return _BertClassifier(self.words)


class _BertClassifier(nn.Module):
    """Hugging Face's BERT for the classification of sentences; words to scores."""

    def __init__(self, words: int) -> None:
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
        self.bert: nn.Module = BertForSequenceClassification(
            BertConfig(vocab_size=words, max_position_embeddings=16, num_labels=4, **sizes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Words [rows, 16] to scores [rows, 2]."""
        return self.bert(input_ids=x).logits


class CifarSubset(Classification):
    """4,000 images of CIFAR-10, three convolutions with BatchNorm."""

    epochs = 5
    batch = 64
    train_rows: ClassVar[int | None] = 0

    def data(self) -> dict[str, Split]:
        """4,000 images to train, and 1,000 each for validation and test."""
        return _cifar_subset()

    def model(self) -> nn.Module:
        """Three convolutions of stride 2 with BatchNorm, and a linear layer."""
        layers: list[nn.Module] = []
        for before, after in ((3, 32), (32, 64), (64, 64)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, 10))


@cache
def _cifar_subset() -> dict[str, Split]:
    whole = tasks.find("cifar10")[0].data()
    # Images that are not contiguous in memory take a slower path of the CPU's convolutions.
    rows = {"train": 4000, "validation": 1000, "test": 1000}
    return {name: (x[: rows[name]].clone(), y[: rows[name]].clone()) for name, (x, y) in whole.items()}


def find(name: str) -> Task:
    """The task of that name: one of this file, or one of the lab's."""
    own = {"mlp": Mlp, "bert": Bert, "cifar10-subset": CifarSubset}
    return own[name]() if name in own else tasks.find(name)[0]
