"""The experiments, with the paper's settings word for word, and what a tuned comparison searches."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..errors import InputError
from ..optimizers import LogUniform, parse

PROTOCOLS = ("paper", "tuned")
NAMES = {
    "adam-plus": "Adam⁺",
    "nigt": "NIGT",
    "sgd": "SGD",
    "msgd": "Momentum SGD",
    "adagrad": "AdaGrad",
    "adam": "Adam",
}
"""The paper's six, as figures call them."""


@dataclass(frozen=True)
class PaperSettings:
    """What the paper says of an optimizer's settings."""

    named: Mapping[str, float]
    """Those that are run: the ones that the paper calls best, where it tried several."""
    tried: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """What it chose from."""
    declared: str = ""
    """Which of them the paper does not name, and why it is this one here."""

    def values(self, key: str) -> tuple[float, ...]:
        """What the paper has tried of a setting."""
        return self.tried.get(key, (self.named[key],))

    @property
    def points(self) -> int:
        """Of the paper's grid."""
        return math.prod(len(self.values(key)) for key in self.named)

    def labels(self, optimizer: str, grid: bool, weight_decay: float, given: Mapping[str, float]) -> list[str]:
        """As a comparison takes them: one, or a grid; `given` are points of the grid that somebody asks for."""
        chosen = {**self.named, **given}
        values = {key: self.values(key) if grid and key not in given else (value,) for key, value in chosen.items()}
        points = [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]
        return [_label(optimizer, {**point, "weight_decay": weight_decay}) for point in points]


@dataclass(frozen=True)
class Panel:
    """One half of a figure, and what a claim about it looks at."""

    column: str
    """Of a run's metrics."""
    title: str


@dataclass(frozen=True)
class Experiment:
    """A comparison that the paper made."""

    name: str
    """Of the task, and of the data set."""
    title: str
    panels: Mapping[Literal["train", "test"], Panel]
    higher: bool
    margin: float
    """Differences up to this are none: absolute for accuracy, else relative."""
    settings: Mapping[str, PaperSettings]
    """By optimizer, in the order of the legend."""
    ranges: Mapping[str, Mapping[str, LogUniform]] = field(default_factory=dict)
    """Of the tuned protocol, where those of the optimizers' own do not fit."""
    target: float | None = None
    """Of the test metric; the time until it is reached is told."""

    def task(self, protocol: str) -> str:
        """Whose data is split, and whose rates are lowered, as the protocol has it."""
        return f"{self.name}-paper" if protocol == "paper" else self.name

    def labels(self, asked: str, protocol: str, grid: bool = False, weight_decay: float = 0.0) -> list[str]:
        """What a comparison is asked for, of `name` or `name:key=value`; in the paper's protocol, of what it tried."""
        if protocol == "tuned":
            return [asked]
        name, given = parse(asked)
        for key, value in given.items():
            if key not in self.settings[name].named or value not in self.settings[name].values(key):
                tried = self._tried(name)
                raise InputError(f"{asked!r} is not the paper's on {self.name}: it has {tried}; try --protocol tuned")
        return self.settings[name].labels(name, grid, weight_decay, given)

    def _tried(self, name: str) -> str:
        own = self.settings[name]
        return ", ".join(f"{key}={'|'.join(f'{v:g}' for v in own.values(key))}" for key in own.named)

    def searched(self) -> dict[str, dict[str, LogUniform]]:
        """What the tuned protocol searches beside the learning rate, by optimizer."""
        also: dict[str, dict[str, LogUniform]] = {name: {"weight_decay": DECAYS} for name in self.settings}
        also["adam-plus"]["beta"] = BETAS
        also["nigt"]["momentum"] = Complement(BETAS.low, BETAS.high)
        return {name: {**own, **self.ranges.get(name, {})} for name, own in also.items()}


class Complement(LogUniform):
    """Numbers whose distance from 1 is log-uniform: momenta."""

    def at(self, fraction: float) -> float:
        """The one at that fraction of the way."""
        return float(f"{1 - super().at(fraction):.3g}")

    def __str__(self) -> str:
        return f"1 − {super().__str__()}"


DECAYS = LogUniform(1e-5, 3e-3)
BETAS = LogUniform(0.01, 0.9)
"""As wide as the values that the paper tried."""
TENTHS, MOMENTA = (0.1, 0.01, 0.001), (0.01, 0.1, 0.9)
RATES, COORDINATE_RATES = (0.1, 0.2, 0.5, 5.0, 10.0, 20.0), (0.001, 0.01, 0.1, 1.0)
UNNAMED = "the paper names no best rate"

IMAGES = {
    "adam-plus": PaperSettings({"lr": 0.1, "beta": 0.1}),
    "nigt": PaperSettings({"lr": 0.1, "momentum": 0.9}, {"momentum": MOMENTA}),
    "sgd": PaperSettings({"lr": 0.1}),
    "msgd": PaperSettings({"lr": 0.1}),
    "adagrad": PaperSettings({"lr": 0.01}, {"lr": TENTHS}),
    "adam": PaperSettings({"lr": 0.001}, {"lr": TENTHS}),
}
TEXT = {
    "adam-plus": PaperSettings(
        {"lr": 10, "beta": 0.9},
        {"lr": RATES, "beta": MOMENTA},
        f"{UNNAMED}: the best of 5, 10 and 20 by validation after 6 epochs, with the β of NIGT's text",
    ),
    "nigt": PaperSettings(
        {"lr": 0.5, "momentum": 0.9},
        {"lr": RATES, "momentum": MOMENTA},
        f"{UNNAMED}: steps of the length lr; 0.5 is a tenth of the longest that SGD takes at 20 with gradients clipped",
    ),
    "sgd": PaperSettings(
        {"lr": 20}, {"lr": RATES}, f"{UNNAMED}: the usual one for this model, and the best of 5, 10 and 20 as for Adam⁺"
    ),
    "msgd": PaperSettings({"lr": 0.5}, {"lr": RATES}, f"{UNNAMED}: the nearest below SGD's times 1 − 0.9"),
    "adagrad": PaperSettings({"lr": 0.01}, {"lr": COORDINATE_RATES}),
    "adam": PaperSettings({"lr": 0.001}, {"lr": COORDINATE_RATES}),
}
TEXT_RANGES = {  # gradients are clipped at 0.25, so rates are larger; a factor of 300, as everybody's
    "adam-plus": {"lr": LogUniform(1, 300)},
    "nigt": {"lr": LogUniform(0.03, 9)},
    "sgd": {"lr": LogUniform(0.3, 90)},
    "msgd": {"lr": LogUniform(0.03, 9)},
}
SPEECH = {
    "adam-plus": PaperSettings({"lr": 0.1, "beta": 0.01}, {"beta": MOMENTA}),
    "nigt": PaperSettings({"lr": 0.1, "momentum": 0.9}, {"momentum": MOMENTA}),
    "sgd": PaperSettings({"lr": 0.1}, declared="the paper tells of momentum SGD alone: its rate"),
    "msgd": PaperSettings({"lr": 0.1}),
    "adagrad": PaperSettings({"lr": 0.01}, {"lr": TENTHS}),
    "adam": PaperSettings({"lr": 0.001}, {"lr": TENTHS}),
}


def _panels(column: str, train: str, test: str = "test") -> dict[Literal["train", "test"], Panel]:
    said = {"running": "training {}, running mean", "train": "training {}"}[train]
    return {
        "train": Panel(f"{train}_{column}", said.format(column)),
        "test": Panel(f"test_{column}", f"{test} {column}"),
    }


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("cifar10", "ResNet18 on CIFAR-10", _panels("accuracy", "running"), True, 0.005, IMAGES, target=0.9),
        Experiment("cifar100", "VGG19 on CIFAR-100", _panels("accuracy", "running"), True, 0.005, IMAGES, target=0.6),
        Experiment(
            "wikitext2",
            "Two-layer LSTM on WikiText-2",
            _panels("perplexity", "train"),
            False,
            0.02,
            TEXT,
            TEXT_RANGES,
            target=120,
        ),
        Experiment("an4", "Six-layer BiLSTM on AN4", _panels("loss", "train", "held-out"), False, 0.02, SPEECH),
        Experiment("swb300", "Six-layer BiLSTM on SWB-300", _panels("loss", "train", "held-out"), False, 0.02, SPEECH),
    )
}
GROWTH = ("cifar10", "cifar100")
"""Whose Σ‖z‖ the paper shows."""


def _label(optimizer: str, settings: Mapping[str, float]) -> str:
    return f"{optimizer}:" + ";".join(f"{key}={value:g}" for key, value in settings.items())
