"""Readings: named variants of the paper's protocol, in what the paper leaves open. They are kept apart from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import InputError, nearest
from .experiments import EXPERIMENTS, IMAGE_TASKS, NAMES, Experiment, PaperSettings, Value

BETAS_OF_TEXT = tuple(name for name in EXPERIMENTS if name not in IMAGE_TASKS)
"""Experiments for which the paper calls NIGT's setting β. For images it calls it a momentum."""
DECAY = 5e-4


@dataclass(frozen=True)
class Reading:
    """One reading of what the paper leaves open."""

    text: str
    """What differs from the word-for-word protocol, and why that is plausible."""
    settings: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Settings that it adds, by optimizer."""
    complements: Mapping[str, str] = field(default_factory=dict)
    """The setting of an optimizer, by the optimizer's name, whose values x become 1 − x."""
    scheduled: tuple[str, ...] = ()
    """Optimizers that follow the schedule, though the paper gives them only a first rate."""
    experiments: tuple[str, ...] = tuple(EXPERIMENTS)
    excludes: str = ""
    """The reading that it cannot be combined with."""

    def changes(self, optimizer: str) -> bool:
        """Whether an optimizer's runs differ from those without this reading."""
        return optimizer in self.settings or optimizer in self.complements or optimizer in self.scheduled

    def apply(self, optimizer: str, own: PaperSettings) -> PaperSettings:
        """The settings of an optimizer by this reading."""
        if (key := self.complements.get(optimizer)) is not None:
            named = {**own.named, key: _complement(own.named[key])}
            tried = {**own.tried, key: tuple(_complement(value) for value in own.values(key))}
            own = replace(own, named=named, tried=tried)
        return replace(own, named={**own.named, **self.settings.get(optimizer, {})})


READINGS = {
    "decay": Reading(
        f"weight decay {DECAY:g} for every optimizer. The paper names none; the public training script with the same "
        "schedule has this one.",
        {name: {"weight_decay": DECAY} for name in NAMES},
    ),
    "tensor-norm": Reading(
        "‖z‖ of each tensor alone for Adam⁺ and NIGT. The paper has one norm; NIGT's published code has one per "
        "variable.",
        {name: {"norm_scope": "tensor"} for name in ("adam-plus", "nigt")},
    ),
    "no-beta-power": Reading(
        "a step of α/‖z‖^(1/2) for Adam⁺, without the factor β^a. The paper sets α to SGD's learning rate.",
        {"adam-plus": {"beta_power": 0}},
    ),
    "decayed-adam": Reading(
        "Adam and AdaGrad follow the schedule of SGD. The paper calls their rates initial and mentions no schedule.",
        scheduled=("adam", "adagrad"),
    ),
    "beta-as-momentum": Reading(
        "Adam⁺'s β is a momentum, as NIGT's is: 0.9 is a weight of 0.1 for new gradients. The paper tunes both "
        "alike and writes β for both. Schedules divide the weight of new gradients.",
        complements={"adam-plus": "beta"},
        experiments=BETAS_OF_TEXT,
        excludes="beta-as-weight",
    ),
    "beta-as-weight": Reading(
        "NIGT's β is the weight of new gradients, as Adam⁺'s is: 0.9 is a momentum of 0.1. The paper divides it by 4 "
        "with the rate, which lengthens the memory only by this reading.",
        complements={"nigt": "momentum"},
        experiments=BETAS_OF_TEXT,
        excludes="beta-as-momentum",
    ),
}
"""All readings, by name. Combinations are named in this order."""


def ordered(names: Sequence[str]) -> tuple[str, ...]:
    """A combination of readings in the order of `READINGS`."""
    return tuple(name for name in READINGS if name in names)


def check(names: Sequence[str]) -> None:
    """Raise InputError unless these readings can be combined."""
    for i, name in enumerate(names):
        if name not in READINGS:
            raise InputError(f"unknown reading {name!r}: {nearest(name, READINGS)}")
        if name in names[:i]:
            raise InputError(f"the reading {name} is given twice: leave one out")
        if READINGS[name].excludes in names:
            raise InputError(f"the readings {name} and {READINGS[name].excludes} exclude each other: leave one out")


def applies(names: Sequence[str], experiment: str) -> bool:
    """Whether all of these readings are about an experiment."""
    return all(experiment in READINGS[name].experiments for name in names)


def under(experiment: Experiment, names: Sequence[str]) -> Experiment:
    """An experiment with the settings and the task of these readings."""
    settings = dict(experiment.settings)
    for name in names:
        settings = {optimizer: READINGS[name].apply(optimizer, own) for optimizer, own in settings.items()}
    decayed = any(READINGS[name].scheduled for name in names)
    return replace(experiment, settings=settings, decayed=decayed)


def effective(names: Sequence[str], optimizer: str) -> tuple[str, ...]:
    """Those of the readings that change an optimizer's runs."""
    return tuple(name for name in names if READINGS[name].changes(optimizer))


def _complement(value: Value) -> float:
    return round(1 - float(value), 12)
