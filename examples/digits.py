"""Classify handwritten digits with Adam⁺: a few seconds on a CPU, and nothing is downloaded.

    python examples/digits.py
    python examples/digits.py --lr 0.3 --beta 0.5 --seed 1

The 1,797 images of 8 × 8 pixels are part of scikit-learn (pip install scikit-learn), which `.[lab]` installs.
"""

import argparse
from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from adamplus import AdamPlus

TEST = 360  # images, every fifth
BATCH = 64


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to train with, and to test with."""
    data = load_digits()
    x = torch.tensor(data.data, dtype=torch.float32) / 16  # pyright: ignore[reportAttributeAccessIssue]
    y = torch.tensor(data.target)  # pyright: ignore[reportAttributeAccessIssue]
    test = torch.arange(len(y)) % 5 == 0
    return x[~test], y[~test], x[test], y[test]


def train(build: Callable[[nn.Module], Optimizer], epochs: int, seed: int, verbose: bool = False) -> float:
    """Train a small network with the optimizer that `build` makes for it, and return its accuracy on test images."""
    torch.manual_seed(seed)
    x, y, x_test, y_test = digits()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = build(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    accuracy = 0.0
    for epoch in range(epochs):
        model.train()
        for rows in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        schedule.step()
        model.eval()  # an Adam⁺ optimizer that follows the model is at w now
        with torch.no_grad():
            accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
        if verbose:
            print(f"epoch {epoch + 1:2d}  test accuracy {accuracy:.3f}")
    return accuracy


def main() -> None:
    """Read the command line, and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lr", type=float, default=3.0, help="α of Adam⁺ [default: 3]")
    parser.add_argument("--beta", type=float, default=0.1, help="β of Adam⁺ [default: 0.1]")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the images [default: 20]")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and batches [default: 0]")
    args = parser.parse_args()

    def adam_plus(model: nn.Module) -> Optimizer:
        optimizer = AdamPlus(model.parameters(), lr=args.lr, beta=args.beta)
        optimizer.follow(model)  # model.train() and model.eval() switch it, too
        return optimizer

    train(adam_plus, args.epochs, args.seed, verbose=True)


if __name__ == "__main__":
    main()
