"""Stored runs of a reproduction, by experiment and contender."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._present import Summary, summarize
from .._store import CorruptError, Store, read_json
from ..errors import InputError
from ..report import StoredRun, read_run
from . import choice
from .data_check import UNOFFICIAL, stored_text
from .experiments import EXPERIMENTS, Experiment
from .readings import effective
from .request import ReproduceRequest

PAPER = "paper"
"""Name of the folder with the paper's settings and budget."""
ENDED = ("finished", "diverged")
"""The statuses of runs that count. Runs that failed or are not complete do not count."""
REMARKS = "remarks.json"
"""File in the folder of an experiment's runs, written by hand: a remark, and optimizers whose times do not count."""


@dataclass(frozen=True)
class ContenderRuns:
    """Final runs of one contender."""

    optimizer: str
    label: str
    runs: list[StoredRun]
    """One run per seed, in the order of the seeds."""
    tried: int
    """The number of the paper's settings of which these are the best."""
    trials: int = 0
    """The number of trials in the search that chose the settings."""
    timed: bool = True
    """Whether its times count."""
    rest: tuple["ContenderRuns", ...] = ()
    """The runs with settings that are not the best."""
    borrowed: str = ""
    """Name of the folder that has the runs, if it is another one: the readings of this one do not all change them."""

    def ended(self, *statuses: str) -> list[StoredRun]:
        """The runs with one of these statuses."""
        return [run for run in self.runs if run.status in statuses]

    def last(self, column: str) -> Summary:
        """Summary of a metric after the last epoch."""
        return summarize(run.last(column) for run in self.ended("finished"))

    def early(self, column: str, part: float) -> Summary:
        """Summary of a metric's mean over the first part of the epochs."""
        values = []
        for run in self.ended("finished"):
            lines = run.epochs[: max(1, round(part * len(run.epochs)))]
            if all(column in line for line in lines):
                values.append(math.fsum(float(line[column]) for line in lines) / len(lines))
        return summarize(values)

    def reached(self, column: str, target: float, higher: bool) -> list[dict[str, float]]:
        """The first epoch of each finished run that reaches the target. Runs that do not reach it are left out."""
        lines = ([line for line in run.epochs if column in line] for run in self.ended("finished"))
        good = (
            [line for line in own if (line[column] >= target if higher else line[column] <= target)] for own in lines
        )
        return [own[0] for own in good if own]


@dataclass(frozen=True)
class Stored:
    """Stored runs of one experiment in one folder."""

    experiment: Experiment
    folder: str
    """Name of the folder of the protocol and budget: paper, paper-quick, tuned …"""
    contenders: dict[str, ContenderRuns]
    data: str = ""
    """The result of the check of the data, as text."""
    unreadable: tuple[str, ...] = ()
    """Folders of damaged runs, each with the error."""
    remark: str = ""
    """A remark by the author of the runs, for example that the machine was busy at the time."""
    labels: tuple[str, ...] = ()
    """The labels of all runs, including those that are not the best."""
    chosen_after: int | None = None
    """The number of epochs after which settings were chosen from the paper's grid, if they were."""

    @property
    def request(self) -> ReproduceRequest:
        """Protocol, readings and budget of the runs."""
        request = ReproduceRequest.of_folder(self.folder)
        assert request is not None  # `folders` leaves out other names
        return request

    @property
    def tuned(self) -> bool:
        """Whether the settings were searched."""
        return is_tuned(self.folder)

    @property
    def own(self) -> dict[str, ContenderRuns]:
        """The contenders whose runs are in this folder."""
        return {name: one for name, one in self.contenders.items() if not one.borrowed}

    @property
    def unofficial(self) -> bool:
        """Whether the data is known to differ from the paper's."""
        return self.data.startswith(UNOFFICIAL)

    @property
    def epochs(self) -> int:
        """The number of epochs of a run."""
        return max((run.spec["epochs"] for one in self.contenders.values() for run in one.runs), default=0)


def is_tuned(folder: str) -> bool:
    """Whether the runs of a folder are of the tuned protocol."""
    return folder.startswith("tuned")


def folders(out: Path) -> list[str]:
    """Names of the folders that exist, after that of the paper's own protocol and budget."""
    found = sorted(path.parent.name for name in EXPERIMENTS for path in out.glob(f"*/{name}") if path.is_dir())
    return list(dict.fromkeys([PAPER, *filter(ReproduceRequest.of_folder, found)]))


def read_all(out: Path) -> dict[str, dict[str, Stored]]:
    """Read all runs, by folder and experiment.

    A folder of readings also has the runs of optimizers that only some of its readings change, or none.
    """
    found: dict[str, dict[str, Stored]] = {}
    for folder in folders(out):
        request = ReproduceRequest.of_folder(folder)
        assert request is not None
        found[folder] = {name: read(out, folder, request.experiment(name)) for name in EXPERIMENTS}
    return {folder: {name: _completed(out, found, one) for name, one in own.items()} for folder, own in found.items()}


def _completed(out: Path, found: dict[str, dict[str, Stored]], own: Stored) -> Stored:
    """Add the runs of optimizers that the readings of a folder do not all change, from the folder that has them."""
    request, name = own.request, own.experiment.name
    if not request.reading or not (out / own.folder / name).is_dir():
        return own
    contenders = dict(own.contenders)
    for optimizer in own.experiment.settings:
        other = replace(request, reading=effective(request.readings, optimizer)).folder
        if optimizer not in contenders and other != own.folder and other in found:
            borrowed = found[other][name].contenders.get(optimizer)
            if borrowed is not None:
                contenders[optimizer] = replace(borrowed, borrowed=other)
    return replace(own, contenders={one: contenders[one] for one in own.experiment.settings if one in contenders})


def read(out: Path, folder: str, experiment: Experiment) -> Stored:
    """Read the newest run of every optimizer, settings and seed, made by any version of the code.

    Runs that have ended come before those that have not. If several of the paper's settings were run, the chosen ones
    count (`--choose-after`), and without a choice the best. If a search was repeated, with other fixed settings or
    another choice, the newer one counts.
    """
    root = out / folder / experiment.name
    records, unreadable = _records(root)
    found: dict[str, dict[str, dict[str, dict[int, StoredRun]]]] = {}
    searches: dict[str, list[dict[str, Any]]] = {}
    for record in sorted(records, key=_age):
        spec = record.spec
        if spec["optimizer"] not in experiment.settings:
            continue
        if spec["phase"] == "search":
            searches.setdefault(spec["label"], []).append(spec)
            continue
        made = json.dumps([spec["settings"], spec["epochs"]], sort_keys=True)
        labels = found.setdefault(spec["optimizer"], {})
        groups = labels[spec["label"]] = labels.pop(spec["label"], {})  # the newest is the last of both
        groups[made] = groups.pop(made, {}) | {spec["seed"]: record}
    remark, untimed = _remarks(root)
    chosen = choice.load(root)
    contenders: dict[str, ContenderRuns] = {}
    for optimizer in filter(found.__contains__, experiment.settings):
        newest = {label: list(groups.values())[-1] for label, groups in found[optimizer].items()}
        labels = {label: [runs[seed] for seed in sorted(runs)] for label, runs in newest.items()}
        if is_tuned(folder):
            labels = dict([labels.popitem()])
        best = min(labels, key=lambda label, labels=labels: place(experiment, labels[label]))
        best = chosen.labels[optimizer] if chosen and chosen.labels.get(optimizer) in labels else best
        timed = optimizer not in untimed
        trials = _trials(labels[best][0].spec["settings"], searches.get(best, []))
        tried = sum(any(run.status in ENDED for run in runs) for runs in labels.values())
        tried = chosen.tried[optimizer] if chosen and chosen.labels.get(optimizer) == best else tried
        rest = tuple(ContenderRuns(optimizer, label, labels[label], 1, 0, timed) for label in labels if label != best)
        contenders[optimizer] = ContenderRuns(optimizer, best, labels[best], max(1, tried), trials, timed, rest)
    every = tuple(label for labels in found.values() for label in labels)
    after = chosen.epochs if chosen else None
    return Stored(experiment, folder, contenders, stored_text(root), tuple(unreadable), remark, every, after)


def _trials(chosen: dict[str, Any], search: list[dict[str, Any]]) -> int:
    """The trials of the search that chose these settings. Old runs lack the number: the longest search counts."""
    numbers = [spec["trials"] for spec in search if spec["settings"] == chosen and "trials" in spec]
    return numbers[-1] if numbers else max((spec["trial"] for spec in search), default=0)


def _remarks(root: Path) -> tuple[str, Sequence[str]]:
    """The remark on the runs, and the optimizers whose times do not count."""
    if not (root / REMARKS).exists():
        return "", ()
    try:
        content = read_json(root / REMARKS)
        return str(content["remark"]), [str(name) for name in content.get("untimed", [])]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{root / REMARKS} cannot be read ({type(error).__name__}: {error}): "
            'write {"remark": "...", "untimed": ["msgd"]}'
        ) from error


def _age(record: StoredRun) -> tuple[bool, str]:
    return record.status in ENDED, str(record.settings.get("started", ""))


def _records(root: Path) -> tuple[list[StoredRun], list[str]]:
    """The runs that can be read, and the errors of the others."""
    records, unreadable = [], []
    for run in Store(root).runs():
        name = run.folder.relative_to(root).as_posix()
        try:
            records.append(read_run(run, name))
        except CorruptError as error:
            unreadable.append(f"{name}: {error}")
    return records, unreadable


def place(experiment: Experiment, runs: list[StoredRun]) -> float:
    """Rank of some settings, less is better: by validation data if there is any, else by test data.

    The paper seems to have chosen its settings by test data.
    """
    test = experiment.panels["test"].column
    columns = (test.replace("test_", "validation_"), test)
    for column in columns:
        mean = summarize(run.last(column) for run in runs if run.status == "finished").mean
        if mean is not None and math.isfinite(mean):
            return -mean if experiment.higher else mean
    return math.inf
