"""Classify CIFAR-10 with Adam⁺: a small residual network, BatchNorm, crops and flips, and a cosine.

    adamplus data download cifar10                                       # once; into ~/.cache/adamplus
    python examples/cifar10.py                                           # a minute or two on a CPU
    python examples/cifar10.py --images 50000 --epochs 35 --width 64     # on a GPU

Statistics of BatchNorm are collected at ŵ while training. `update_bn` estimates those of w before the evaluation.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

from adamplus import AdamPlus, update_bn
from adamplus.lab import InputError
from adamplus.lab.data import cifar
from adamplus.lab.models import crop_and_flip


class Residual(nn.Module):
    """Two convolutions beside an identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = convolution(width, width, 1), convolution(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps to feature maps."""
        return relu(x + self.second(relu(self.first(x))))


def convolution(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """A convolution of 3 × 3 with BatchNorm."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))


def network(width: int) -> nn.Sequential:
    """Three residual blocks, at 16 × 16, 8 × 8 and 4 × 4."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, width), (width, 2 * width), (2 * width, 4 * width)):
        layers += [convolution(inputs, outputs, 2), nn.ReLU(), Residual(outputs)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10))


def prepared(images: Tensor, device: str) -> Tensor:
    """Bytes as numbers of mean 0 and deviation 1, about."""
    return (images.to(device).float() / 255 - 0.47) / 0.25


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of images whose class is found."""
    right = [(model(rows).argmax(1) == labels).sum() for rows, labels in zip(x.split(500), y.split(500), strict=True)]
    return torch.stack(right).sum().item() / len(y)


def main() -> None:
    """Train, and print the accuracy on test images."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--data", type=Path, help="folder of the data sets [default: $ADAMPLUS_DATA, ~/.cache/adamplus]"
    )
    parser.add_argument("--images", type=int, default=5000, help="training images that are used [default: 5000]")
    parser.add_argument("--epochs", type=int, default=8, help="passes over them [default: 8]")
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer [default: 16]")
    parser.add_argument("--lr", type=float, default=2.0, help="α of Adam⁺ [default: 2]")
    parser.add_argument("--weight-decay", type=float, default=5e-4, help="coupled, as SGD's [default: 0.0005]")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        data = cifar.read("cifar10", args.data)
    except InputError as error:
        raise SystemExit(f"{error}") from None
    x, y = prepared(data.train.images[: args.images], device), data.train.labels[: args.images].to(device)
    x_test, y_test = prepared(data.test.images, device), data.test.labels.to(device)

    model = network(args.width).to(device)
    optimizer = AdamPlus(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    optimizer.follow(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for rows in torch.randperm(len(y), device=device).split(128):
            optimizer.zero_grad()
            loss = cross_entropy(model(crop_and_flip(x[rows])), y[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        schedule.step()
        model.eval()
        update_bn(x.split(500), model, optimizer)
        mean = torch.stack(losses).mean()
        print(f"epoch {epoch + 1:2d}  loss {mean:.3f}  test accuracy at w {accuracy(model, x_test, y_test):.3f}")


if __name__ == "__main__":
    main()
