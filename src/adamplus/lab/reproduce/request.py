"""The request for a reproduction: from the command line to the folder of its runs and the rerun command."""

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from .._compare import check_least, command_options, option
from ..errors import InputError, nearest
from ..tasks import find
from . import readings
from .experiments import EXPERIMENTS, GROWTH, NAMES, PROTOCOLS, Experiment
from .readings import READINGS

ALL, TOY = "all", "toy"
CHOICES = (*EXPERIMENTS, "growth", ALL)
"""The names of experiments, and of several of them together."""
DATA = Path("DIR")
"""Stands for the folder of all data in a rerun command, which names no path of this machine."""
COMBINATION = "|".join(READINGS)
FOLDER = re.compile(
    rf"(paper|tuned)(?:-reading-((?:{COMBINATION})(?:\+(?:{COMBINATION}))*))?"
    r"(?:-decay-(\d+(?:\.\d+)?(?:e[+-]\d+)?))?(?:-(quick)|-(\d+)-epochs)?"
)
"""The names that `ReproduceRequest.folder` gives."""


@dataclass(frozen=True)
class ReproduceRequest:
    """Arguments of `adamplus.lab.reproduce`, in the order in which the rerun command has them as options."""

    experiments: Sequence[str] = field(
        metadata={
            "text": "names of experiments. `growth`: Adam⁺ on both image sets. `all`: all whose data is there. "
            "None: only make figures and page of the stored runs."
        }
    )
    _: KW_ONLY
    data: Path | None = option(None, "folder of all data sets. Default: $ADAMPLUS_DATA or ~/.cache/adamplus.")  # noqa: RUF009
    out: Path = option(Path("reproduction"), "folder of runs, figures and page.", always=True)  # noqa: RUF009
    protocol: str = option(
        "paper", "`paper`: its settings word for word. `tuned`: the same search for every optimizer.", always=True
    )
    weight_decay: float = option(0.0, "weight decay of every optimizer, in the paper's protocol. The paper names none.")
    reading: Sequence[str] = option(
        (), f"other readings of the paper, combined: {', '.join(READINGS)}. Their runs are kept apart."
    )
    quick: bool = option(False, "a tenth of the epochs, with schedules of the same shape.")
    toy: bool = option(
        False, "small models, a few rows, two epochs and one seed: a check of data and installation on a CPU."
    )
    epochs: int | None = option(None, "epochs per run, instead of the task's.")
    seeds: int = option(3, "final runs of each optimizer.", always=True)
    tune: int = option(8, "trials of each optimizer, in the tuned protocol.", least=0, always=True)
    optimizers: Sequence[str] = option(
        tuple(NAMES),
        "some of the paper's six, also as `name:key=value`. In the paper's protocol, the value is one that the paper "
        "tried. In the tuned one, it is not searched.",
        always=True,
    )
    grid: bool = option(False, "all settings that the paper chose from, not only those that it calls best.")
    choose_after: int | None = option(
        None,
        "epochs after which the validation metric chooses from the paper's grid. Default: the settings that the paper "
        "calls best.",
        least=1,
    )
    device: str | None = option(None, "as in `compare`.")
    precision: str | None = option(None, "as in `compare`.")
    engine: str = option("local", "as in `compare`.")
    workers: int | None = option(None, "as in `compare`.", least=1)

    @classmethod
    def of_folder(cls, name: str) -> "ReproduceRequest | None":
        """The protocol and the budget of the runs in a folder; None if `folder` gives no such name."""
        if (found := FOLDER.fullmatch(name)) is None:
            return None
        protocol, combined, weight_decay, quick, epochs = found.groups()
        return cls(
            (),
            protocol=protocol,
            reading=tuple(combined.split("+")) if combined else (),
            weight_decay=float(weight_decay or 0),
            quick=bool(quick),
            epochs=int(epochs) if epochs else None,
        )

    @property
    def folder(self) -> str:
        """Name of the folder of these runs: one for each protocol, reading and budget, and one for toys."""
        if self.toy:
            return TOY
        parts = [self.protocol]
        parts += [f"reading-{'+'.join(self.readings)}"] if self.reading else []
        parts += [f"decay-{self.weight_decay:g}"] if self.weight_decay else []
        parts += [f"{self.epochs}-epochs"] if self.epochs is not None else ["quick"] if self.quick else []
        return "-".join(parts)

    @property
    def readings(self) -> tuple[str, ...]:
        """The readings in their order, which is not that of the command line."""
        return readings.ordered(self.reading)

    def experiment(self, name: str) -> Experiment:
        """An experiment under the readings of this request."""
        return readings.under(EXPERIMENTS[name], self.readings)

    @property
    def is_reading(self) -> bool:
        """Whether runs differ from the protocols by a reading of the paper or by a weight decay."""
        return bool(self.reading or self.weight_decay)

    @property
    def shortened(self) -> bool:
        """Whether runs have other budgets than the paper's."""
        return self.quick or self.epochs is not None

    @property
    def tuned(self) -> bool:
        """Whether settings are searched."""
        return self.protocol == "tuned"

    def task(self, experiment: Experiment) -> str:
        """Name of the task of an experiment."""
        return f"{experiment.name}-{TOY}" if self.toy else experiment.task(self.protocol)

    def epochs_of(self, experiment: Experiment) -> int:
        """Epochs of every run of an experiment."""
        if self.epochs is not None:
            return self.epochs
        own = find(self.task(experiment))[0].epochs
        return max(1, own // 10) if self.quick else own

    def comparisons(self) -> list[tuple[str, Sequence[str]]]:
        """Experiments and their optimizers. Growth is a comparison only if its runs are not part of another one."""
        meant = [name for name in EXPERIMENTS if readings.applies(self.reading, name) or name in self.experiments]
        chosen = [name for name in meant if {name, ALL} & set(self.experiments)]
        found: list[tuple[str, Sequence[str]]] = [(name, self.optimizers) for name in chosen]
        if "growth" in self.experiments or ALL in self.experiments:
            found += [(name, self._adam_plus()) for name in GROWTH if name in meant and name not in chosen]
        return found

    def labels(self, experiment: Experiment, optimizer: str, grid: bool = False) -> list[str]:
        """The contenders that stand for an optimizer in a comparison: one, or with `grid` all that the paper tried."""
        return experiment.labels(optimizer, self.protocol, grid or self.grid, self.weight_decay)

    def command(self, experiment: str, optimizers: Sequence[str]) -> str:
        """Command line that repeats one experiment, without a path of this machine."""
        out = Path(self.out.name) if self.out.is_absolute() else self.out
        own = replace(self, data=DATA, out=out, optimizers=optimizers, reading=self.readings)
        without = {"experiments", "workers", *([] if self.tuned else ["tune"])}
        return shlex.join(["adamplus", "reproduce", experiment, *command_options(own, without)])

    def check(self) -> None:
        """Raise InputError unless the values can be used."""
        for name in self.experiments:
            if name not in CHOICES:
                raise InputError(f"unknown experiment {name!r}: {nearest(name, CHOICES)}")
        for label in self.optimizers:
            name = label.partition(":")[0]
            if name not in NAMES:
                raise InputError(f"{name!r} is not one of the paper's optimizers: {nearest(name, NAMES)}")
        if not self.optimizers:
            raise InputError(f"no optimizers to run. Name some of {', '.join(NAMES)}")
        if "growth" in self.experiments and not self._adam_plus():
            raise InputError("growth needs Adam⁺: add adam-plus to --optimizers")
        if self.protocol not in PROTOCOLS:
            raise InputError(f"unknown protocol {self.protocol!r}: {nearest(self.protocol, PROTOCOLS)}")
        if self.tuned and (self.grid or self.weight_decay or self.reading or self.choose_after):
            raise InputError(
                "--grid, --choose-after, --reading and --weight-decay need --protocol paper: the tuned one searches"
            )
        self._check_readings()
        self._check_choice()
        if self.tuned and self.tune < 1:
            raise InputError(f"--tune must be at least 1 with --protocol tuned, got {self.tune}")
        if not 0 <= self.weight_decay < math.inf:
            raise InputError(f"--weight-decay must be at least 0, got {self.weight_decay:g}")
        if self.quick and self.epochs is not None:
            raise InputError("--quick and --epochs cannot be given together: leave one of them out")
        if self.toy and (self.tuned or self.grid or self.reading or self.choose_after or self.shortened):
            raise InputError(
                "--toy is a check with two epochs: leave out --protocol, --quick, --epochs, --grid, --reading and "
                "--choose-after"
            )
        if self.toy and not self.experiments:
            raise InputError(f"--toy needs experiments to check: name some of {', '.join(CHOICES)}")
        check_least(self)
        if not self.experiments and not self.out.is_dir():
            raise InputError(
                f"there is no folder {self.out}: pass the --out of stored runs, or name experiments to run"
            )
        for name, optimizers in self.comparisons():
            for optimizer in optimizers:
                self.labels(self.experiment(name), optimizer)

    def _check_readings(self) -> None:
        readings.check(self.reading)
        if self.weight_decay and "decay" in self.reading:
            raise InputError("--reading decay has a weight decay of its own: leave out --weight-decay")
        for name in self.experiments:
            for reading in self.readings if name in EXPERIMENTS else ():
                if not readings.applies((reading,), name):
                    about = ", ".join(READINGS[reading].experiments)
                    raise InputError(f"the reading {reading} is not about {name}: it is about {about}")

    def _check_choice(self) -> None:
        if self.choose_after is None:
            return
        if self.grid or self.quick:
            raise InputError("--choose-after runs the grid, and then the paper's budget: leave out --grid and --quick")
        for name, _ in self.comparisons():
            if not EXPERIMENTS[name].validates:
                able = ", ".join(other for other in EXPERIMENTS if EXPERIMENTS[other].validates)
                raise InputError(f"--choose-after needs validation data, which {name} has not: use it with {able}")
            if self.choose_after >= self.epochs_of(EXPERIMENTS[name]):
                raise InputError(
                    f"--choose-after must be less than the {self.epochs_of(EXPERIMENTS[name])} epochs of {name}, "
                    f"got {self.choose_after}"
                )

    def _adam_plus(self) -> list[str]:
        return [label for label in self.optimizers if label.partition(":")[0] == "adam-plus"]
