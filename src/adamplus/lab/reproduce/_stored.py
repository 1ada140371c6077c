"""The runs of a reproduction that are stored, by experiment and optimizer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .._store import CorruptError, Store
from ..report._results import Record, read_run
from ..report._statistics import Summary, summarize
from ._experiments import EXPERIMENTS, Experiment, Protocol


@dataclass(frozen=True)
class Contestant:
    """An optimizer's final runs."""

    optimizer: str
    label: str
    runs: list[Record]
    tried: int
    """Settings that this is the best of."""

    def ended(self, status: str) -> list[Record]:
        """Those that ended so."""
        return [run for run in self.runs if run.status == status]

    def last(self, column: str) -> Summary:
        """After the last epoch."""
        return summarize(run.last(column) for run in self.ended("finished"))

    def early(self, column: str, part: float) -> Summary:
        """The mean over the first part of the epochs."""
        values = []
        for run in self.ended("finished"):
            lines = run.epochs[: max(1, round(part * len(run.epochs)))]
            values.append(math.fsum(float(line[column]) for line in lines) / len(lines))
        return summarize(values)


@dataclass(frozen=True)
class Stored:
    """What one folder has of an experiment."""

    experiment: Experiment
    folder: str
    """That of the protocol and the budget: paper, paper-quick, tuned …"""
    contestants: dict[str, Contestant]

    @property
    def epochs(self) -> int:
        """Of a run."""
        return max((run.spec["epochs"] for one in self.contestants.values() for run in one.runs), default=0)


def folder_of(protocol: Protocol, *, quick: bool, epochs: int | None, weight_decay: float) -> str:
    """Where runs of a protocol and a budget are, under a reproduction's folder: what is no one's figure is apart."""
    parts: list[str] = [protocol]
    parts += [f"decay-{weight_decay:g}"] if weight_decay else []
    parts += [f"{epochs}-epochs"] if epochs is not None else ["quick"] if quick else []
    return "-".join(parts)


def folders(out: Path) -> list[str]:
    """Those that are there; the paper's protocol in full is first, there or not."""
    found = sorted(path.parent.name for name in EXPERIMENTS for path in out.glob(f"*/{name}") if path.is_dir())
    return list(dict.fromkeys(["paper", *(name for name in found if name.startswith(("paper", "tuned")))]))


def read(out: Path, folder: str, experiment: Experiment) -> Stored:
    """The newest run of every optimizer, settings and seed; of several settings, the best."""
    newest: dict[tuple[str, str], dict[int, Record]] = {}
    for record in _records(out / folder / experiment.name):
        spec = record.spec
        if spec["phase"] == "final" and spec["optimizer"] in experiment.words:
            runs = newest.setdefault((spec["optimizer"], spec["label"]), {})
            earlier = runs.get(spec["seed"])
            if earlier is None or str(earlier.settings["started"]) <= str(record.settings["started"]):
                runs[spec["seed"]] = record
    contestants = {}
    for optimizer in experiment.words:
        labels = {label: list(runs.values()) for (name, label), runs in newest.items() if name == optimizer}
        if labels:
            best = min(labels, key=lambda label, labels=labels: _place(experiment, labels[label]))
            contestants[optimizer] = Contestant(optimizer, best, labels[best], len(labels))
    return Stored(experiment, folder, contestants)


def _records(root: Path) -> Iterator[Record]:
    for run in Store(root).runs():
        try:
            yield read_run(run, run.folder.relative_to(root).as_posix())
        except CorruptError:  # which the comparison's own page names
            continue


def _place(experiment: Experiment, runs: list[Record]) -> float:
    """Less is better: by validation data, where there is some, else by test data, as the paper seems to have chosen."""
    test = experiment.panels["test"].column
    columns = (test.replace("test_", "validation_"), test)
    for column in columns:
        mean = summarize(run.last(column) for run in runs if run.status == "finished").mean
        if mean is not None and math.isfinite(mean):
            return -mean if experiment.higher else mean
    return math.inf
