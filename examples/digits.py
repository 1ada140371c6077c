"""Compare Adam⁺ with the optimizers of its paper on scikit-learn's digits, in about a minute on two cores.

Every optimizer gets the same search (five learning rates, judged by the validation loss) and then fresh seeds.
Adam⁺ and NIGT are evaluated at w.
"""

import contextlib
import math
import statistics
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.datasets import load_digits
from torch import Tensor, nn

from adamplus import NIGT, AdamPlus

EPOCHS, BATCH = 20, 64
SEARCH_SEEDS, SEEDS = (4, 5, 6), (1, 2, 3)  # one seed alone chooses by its luck

# name → (how to build it, the learning rate in the middle of its search); a search is five, a factor of √10 apart
OPTIMIZERS: dict[str, tuple[Callable[[Any, float], torch.optim.Optimizer], float]] = {
    "Adam⁺": (lambda ps, lr: AdamPlus(ps, lr=lr), 1.0),
    "NIGT": (lambda ps, lr: NIGT(ps, lr=lr), 0.1),
    "SGD": (lambda ps, lr: torch.optim.SGD(ps, lr=lr), 0.1),
    "momentum SGD": (lambda ps, lr: torch.optim.SGD(ps, lr=lr, momentum=0.9), 0.1),
    "AdaGrad": (lambda ps, lr: torch.optim.Adagrad(ps, lr=lr), 0.01),
    "Adam": (lambda ps, lr: torch.optim.Adam(ps, lr=lr), 0.001),
}
FACTORS = (0.1, 0.316, 1.0, 3.16, 10.0)


class Split(NamedTuple):
    """Inputs and labels of one part of the data."""

    x: Tensor
    y: Tensor


class Result(NamedTuple):
    """What a run ends with."""

    train_loss: float
    validation_loss: float
    test_loss: float
    test_accuracy: float


def load() -> tuple[Split, Split, Split]:
    """1,797 images of 8×8 pixels: 1,197 to train, 300 to choose the learning rate, 300 to tell."""
    digits: Any = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    x = torch.tensor(digits.images, dtype=torch.float32)[order].unsqueeze(1) / 16
    y = torch.tensor(digits.target)[order]
    return Split(x[:1197], y[:1197]), Split(x[1197:1497], y[1197:1497]), Split(x[1497:], y[1497:])


def network(seed: int) -> nn.Sequential:
    """A small convolutional network; the same seed gives every optimizer the same start."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(288, 10),
    )


def run(name: str, lr: float, seed: int, splits: tuple[Split, Split, Split], epoch_done: Callable[[], None]) -> Result:
    """Train once and measure at the point that the method would ship."""
    train, _, test = splits
    model = network(seed)
    optimizer = OPTIMIZERS[name][0](model.parameters(), lr)
    shuffle = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(train.y), generator=shuffle).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(train.x[chosen]), train.y[chosen]).backward()
            optimizer.step()
        epoch_done()
    at_w = optimizer.averaged() if isinstance(optimizer, AdamPlus) else contextlib.nullcontext()
    with at_w, torch.no_grad():
        train_loss, validation_loss, test_loss = (float(nn.functional.cross_entropy(model(x), y)) for x, y in splits)
        accuracy = float((model(test.x).argmax(1) == test.y).float().mean())
    return Result(train_loss, validation_loss, test_loss, accuracy)


def mean_and_error(values: Iterable[float], digits: int) -> str:
    """Mean ± standard error."""
    values = list(values)
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.mean(values):.{digits}f} ± {error:.{digits}f}"


def main() -> None:
    """Search, repeat, and print the table."""
    splits = load()
    table = Table(title=f"scikit-learn digits, small CNN, {EPOCHS} epochs, mean ± standard error, n = {len(SEEDS)}")
    for column in ("optimizer", "learning rate", "train loss", "test loss", "test accuracy %"):
        table.add_column(column, justify="left" if column == "optimizer" else "right")
    columns = (TextColumn("{task.description:<36}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console()
    runs = len(OPTIMIZERS) * (len(FACTORS) * len(SEARCH_SEEDS) + len(SEEDS))
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=runs * EPOCHS)
        for name, (_, middle) in OPTIMIZERS.items():

            def one(lr: float, seed: int, what: str, name: str = name) -> Result:
                progress.update(bar, description=f"{name}: {what} lr {lr:.3g}, seed {seed}")
                return run(name, lr, seed, splits, lambda: progress.advance(bar))

            def loss(lr: float, one: Callable[[float, int, str], Result] = one) -> float:
                return sum(one(lr, seed, "search").validation_loss for seed in SEARCH_SEEDS)

            lr = min((middle * factor for factor in FACTORS), key=loss)
            results = [one(lr, seed, "measure") for seed in SEEDS]
            table.add_row(
                name,
                f"{lr:.3g}",
                mean_and_error((r.train_loss for r in results), 3),
                mean_and_error((r.test_loss for r in results), 3),
                mean_and_error((100 * r.test_accuracy for r in results), 1),
            )
    console.print(table)
    console.print(
        f"Learning rates: the best of {len(FACTORS)} by the validation loss of {len(SEARCH_SEEDS)} other seeds; "
        "test data had no say."
    )
    console.print("Next: README.md for the optimizer in your own loop, `make bench` for the time of a step.")


if __name__ == "__main__":
    main()
