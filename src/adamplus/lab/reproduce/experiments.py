"""The experiments, with the paper's settings word for word and the ranges of the tuned protocol."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..errors import InputError
from ..optimizers import LogUniform, find, parse

PROTOCOLS = ("paper", "tuned")
Value = float | str
"""The value of a setting."""
NAMES = {
    "adam-plus": "Adam⁺",
    "nigt": "NIGT",
    "sgd": "SGD",
    "msgd": "Momentum SGD",
    "adagrad": "AdaGrad",
    "adam": "Adam",
}
"""The paper's six optimizers, with their names in figures."""


@dataclass(frozen=True)
class PaperSettings:
    """The settings that the paper gives for an optimizer."""

    named: Mapping[str, Value]
    """Settings that are run. If the paper tried several, those that it calls best."""
    tried: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """All values that the paper tried."""
    declared: str = ""
    """The setting that the paper does not name, with the reason for the value here."""

    def values(self, key: str) -> tuple[Value, ...]:
        """The values of a setting that the paper tried."""
        return self.tried.get(key, (self.named[key],))

    @property
    def points(self) -> int:
        """The number of points of the paper's grid."""
        return math.prod(len(self.values(key)) for key in self.named)

    def labels(self, optimizer: str, grid: bool, weight_decay: float, given: Mapping[str, Value]) -> list[str]:
        """The labels of a comparison: one, or a grid. `given` are values of the grid that the user fixes."""
        chosen = {**self.named, **given}
        values = {key: self.values(key) if grid and key not in given else (value,) for key, value in chosen.items()}
        points = [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]
        return [label_of(optimizer, {"weight_decay": weight_decay} | point) for point in points]


@dataclass(frozen=True)
class Panel:
    """One half of a figure: the metric that it shows and that claims about it use."""

    column: str
    """Column of a run's metrics."""
    title: str


@dataclass(frozen=True)
class Experiment:
    """A comparison that the paper made."""

    name: str
    """Name of the task and of the data set."""
    title: str
    panels: Mapping[Literal["train", "test"], Panel]
    higher: bool
    margin: float
    """Differences up to this one do not count: absolute for accuracy, else relative."""
    settings: Mapping[str, PaperSettings]
    """The paper's settings by optimizer, in the order of the legend."""
    ranges: Mapping[str, Mapping[str, LogUniform]] = field(default_factory=dict)
    """Ranges of the tuned protocol that replace those of the contenders."""
    claim: str = ""
    """What the paper says about Adam⁺ in this experiment, in a few words."""
    target: float | None = None
    """Target of the test metric. The time until it is reached is reported."""
    other_train: Panel | None = None
    """A second measurement of training, if the paper does not say which of the two it shows."""
    validates: bool = False
    """Whether the paper's protocol has validation data."""
    decayed: bool = False
    """Whether Adam and AdaGrad follow the schedule: the reading `decayed-adam`."""

    def task(self, protocol: str) -> str:
        """Name of the task whose data split and rate schedule are those of the protocol."""
        if protocol != "paper":
            return self.name
        return f"{self.name}-paper-decayed-adam" if self.decayed else f"{self.name}-paper"

    def labels(self, label: str, protocol: str, grid: bool = False, weight_decay: float = 0.0) -> list[str]:
        """The labels of a comparison for `name` or `name:key=value`.

        In the paper's protocol, the values must be some that the paper tried. In the tuned one, only settings that are
        searched can be fixed: with others it would be another optimizer under the same name.
        """
        name, given = parse(label)
        if protocol == "tuned":
            searched = self.searched()[name].keys() | find(name)[0].search.keys()
            if others := given.keys() - searched:
                raise InputError(
                    f"{label!r} is another optimizer than the paper's: fix only {', '.join(sorted(searched))} here, "
                    f"and compare {', '.join(sorted(others))} with `adamplus compare {self.name}`"
                )
            return [label]
        for key, value in given.items():
            if key not in self.settings[name].named or value not in self.settings[name].values(key):
                tried = self._tried(name)
                raise InputError(f"{label!r} is not the paper's on {self.name}: use {tried}, or --protocol tuned")
        return self.settings[name].labels(name, grid, weight_decay, given)

    def _tried(self, name: str) -> str:
        own = self.settings[name]
        return ", ".join(f"{key}={'|'.join(map(text_of, own.values(key)))}" for key in own.named)

    def searched(self) -> dict[str, dict[str, LogUniform]]:
        """The ranges that the tuned protocol searches beside the learning rate, by optimizer."""
        also: dict[str, dict[str, LogUniform]] = {name: {"weight_decay": DECAYS} for name in self.settings}
        also["adam-plus"]["beta"] = BETAS
        also["nigt"]["momentum"] = Complement(BETAS.low, BETAS.high)
        return {name: {**own, **self.ranges.get(name, {})} for name, own in also.items()}


class Complement(LogUniform):
    """Numbers whose distance from 1 is log-uniform: momenta."""

    def at(self, fraction: float) -> float:
        """The number at that fraction of the range."""
        return float(f"{1 - super().at(fraction):.3g}")

    def __str__(self) -> str:
        return f"1 − {super().__str__()}"


DECAYS = LogUniform(1e-5, 3e-3)
BETAS = LogUniform(0.01, 0.9)
"""A range as wide as the values that the paper tried."""
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
TEXT_RANGES = {  # gradients are clipped at 0.25, so rates are larger; each range is a factor of 300, as all are
    "adam-plus": {"lr": LogUniform(1, 300)},
    "nigt": {"lr": LogUniform(0.03, 9)},
    "sgd": {"lr": LogUniform(0.3, 90)},
    "msgd": {"lr": LogUniform(0.03, 9)},
}
SPEECH = {
    "adam-plus": PaperSettings({"lr": 0.1, "beta": 0.01}, {"beta": MOMENTA}),
    "nigt": PaperSettings({"lr": 0.1, "momentum": 0.9}, {"momentum": MOMENTA}),
    "sgd": PaperSettings({"lr": 0.1}, declared="the paper has momentum SGD alone: its rate"),
    "msgd": PaperSettings({"lr": 0.1}),
    "adagrad": PaperSettings({"lr": 0.01}, {"lr": TENTHS}),
    "adam": PaperSettings({"lr": 0.001}, {"lr": TENTHS}),
}


def _panels(column: str, train: str, test: str = "test") -> dict[Literal["train", "test"], Panel]:
    titles = {"running": "training {}, running mean", "train": "training {}"}[train]
    return {
        "train": Panel(f"{train}_{column}", titles.format(column)),
        "test": Panel(f"test_{column}", f"{test} {column}"),
    }


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "cifar10",
            "ResNet18 on CIFAR-10",
            _panels("accuracy", "running"),
            True,
            0.005,
            IMAGES,
            claim="best of all",
            target=0.9,
        ),
        Experiment(
            "cifar100",
            "VGG19 on CIFAR-100",
            _panels("accuracy", "running"),
            True,
            0.005,
            IMAGES,
            claim="best of all, almost the same as NIGT at the end",
            target=0.6,
        ),
        Experiment(
            "wikitext2",
            "Two-layer LSTM on WikiText-2",
            _panels("perplexity", "train"),
            False,
            0.02,
            TEXT,
            TEXT_RANGES,
            claim="comparable to SGD, ahead of the others",
            target=120,
            other_train=Panel("running_perplexity", "training perplexity with dropout, running mean"),
            validates=True,
        ),
        Experiment("an4", "Six-layer BiLSTM on AN4", _panels("loss", "train", "held-out"), False, 0.02, SPEECH),
        Experiment(
            "swb300",
            "Six-layer BiLSTM on SWB-300",
            _panels("loss", "train", "held-out"),
            False,
            0.02,
            SPEECH,
            claim="level with momentum SGD, ahead of the others",
        ),
    )
}
IMAGE_TASKS = ("cifar10", "cifar100")
GROWTH = IMAGE_TASKS
"""The experiments whose Σ‖z‖ the paper shows."""


def label_of(optimizer: str, settings: Mapping[str, Value]) -> str:
    """The label of an optimizer with settings. The weight decay comes last."""
    own = {key: value for key, value in settings.items() if key != "weight_decay"}
    last = {"weight_decay": settings["weight_decay"]} if "weight_decay" in settings else {}
    return f"{optimizer}:" + ";".join(f"{key}={text_of(value)}" for key, value in (own | last).items())


def text_of(value: Value) -> str:
    """A setting's value as the command line has it."""
    return value if isinstance(value, str) else f"{value:g}"
