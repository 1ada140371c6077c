"""What a store's runs say: read, and sorted by task and contender."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._store import COMPARISON, CorruptError, Run, Store
from ..errors import InputError
from .missing_runs import MissingRun, missing_runs
from .schema import check_comparison, check_run


@dataclass(frozen=True)
class StoredRun:
    """One run, read."""

    folder: str
    settings: dict[str, Any]
    epochs: list[dict[str, Any]]
    end: dict[str, Any]
    """Empty while the run has not ended."""
    counted: bool = True
    """False for what an earlier comparison in the same folder left: another task file, budget or choice of settings."""

    @property
    def spec(self) -> dict[str, Any]:
        """What the run was asked to do."""
        return self.settings["spec"]

    @property
    def status(self) -> str:
        """How it ended; `unfinished` where it did not."""
        return self.end.get("status", "unfinished")

    def last(self, column: str) -> float | None:
        """A column's value after the last epoch, if there is one."""
        value = self.epochs[-1].get(column) if self.epochs else None
        return None if value is None else float(value)


@dataclass(frozen=True)
class TaskResults:
    """The runs of one task that count, by label."""

    name: str
    title: str
    """The name, shorter where it is a path."""
    about: dict[str, Any]
    finals: dict[str, list[StoredRun]]
    trials: dict[str, list[StoredRun]]
    missing: list[MissingRun] = field(default_factory=list)
    """Runs of this task that are named and not there."""

    @property
    def metric(self) -> str:
        """What contenders are judged by."""
        return self.about["metric"]

    @property
    def higher(self) -> bool:
        """Whether more of the metric is better."""
        return self.about.get("better") == "higher"

    def of(self, label: str, *statuses: str) -> list[StoredRun]:
        """The final runs of a contender that ended so."""
        return [run for run in self.finals.get(label, []) if run.status in statuses]


@dataclass(frozen=True)
class Results:
    """All that a store has."""

    comparison: dict[str, Any]
    """What `comparison.json` says; empty where there is none."""
    labels: list[str]
    tasks: list[TaskResults]
    runs: list[StoredRun]
    unreadable: dict[str, str] = field(default_factory=dict)
    """Folders, and what is wrong with them."""
    missing: list[MissingRun] = field(default_factory=list)
    """Runs that are named and not there."""

    def chosen(self, task: TaskResults, label: str) -> dict[str, Any] | None:
        """The settings of the final runs; None where there are none yet."""
        asked = self.comparison.get("chosen", {}).get(task.name, {}).get(label)
        finals = task.finals.get(label)
        return finals[0].spec["settings"] if finals else asked

    def ranges(self, label: str) -> dict[str, Any]:
        """What is declared to be searched, whether it was or not."""
        return (self.comparison.get("ranges") or self.comparison.get("search") or {}).get(label, {})


def read(root: Path) -> Results:
    """Everything under a comparison's folder that can be read."""
    store = Store(root)
    records, unreadable = [], {}
    for run in store.runs():
        folder = run.folder.relative_to(root).as_posix()
        try:
            records.append(read_run(run, folder))
        except CorruptError as error:
            unreadable[folder] = str(error)
    if not records:
        broken = "".join(f"; {folder}: {reason}" for folder, reason in unreadable.items())
        raise InputError(f"{root}: there are no runs to report{broken}. `adamplus compare --out {root}` makes some")
    comparison = _comparison(root)
    records = _count(records, comparison)
    counted = [record for record in records if record.counted]
    if not counted:
        raise InputError(
            f"{root}: none of its {len(records)} runs belongs to what {COMPARISON} tells of; "
            "start that comparison again, or remove the file to have a report of the runs alone"
        )
    labels = _in_order(comparison.get("labels", []), [record.spec["label"] for record in counted])
    names = _in_order(comparison.get("tasks", []), [record.spec["task"] for record in counted])
    titles = _titles(names)
    lacking = missing_runs(root, comparison, [*(record.folder for record in records), *unreadable])
    tasks = [
        _task(
            name,
            titles[name],
            labels,
            [record for record in counted if record.spec["task"] == name],
            [run for run in lacking if run.task == name],
        )
        for name in names
        if any(record.spec["task"] == name for record in counted)
    ]
    return Results(comparison, labels, tasks, records, unreadable, lacking)


def read_run(run: Run, folder: str) -> StoredRun:
    """Everything that a folder says of its run; raises CorruptError where it says too little."""
    run.check()
    settings, epochs, end = run.settings(), run.metrics(), run.end() or {}
    check_run(settings, epochs, end)
    return StoredRun(folder, settings, epochs, end)


def _comparison(root: Path) -> dict[str, Any]:
    path = root / COMPARISON
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}): remove it, and the report is made of the runs alone"
        ) from error
    return check_comparison(path, content)


def _count(records: list[StoredRun], comparison: dict[str, Any]) -> list[StoredRun]:
    """Mark what belongs to the last comparison: a folder may have seen others, whose numbers are of other things."""
    newest: dict[Any, StoredRun] = {}
    for record in sorted(records, key=lambda record: str(record.settings.get("started", ""))):
        newest[_contest(record)] = record
        newest[_contest(record), record.spec["label"]] = record

    def counts(record: StoredRun) -> bool:
        if "runs" in comparison:
            return record.folder in comparison["runs"]
        spec, contest = record.spec, _contest(record)
        same = all(
            spec.get(key) == newest[contest].spec.get(key) for key in ("task_digest", "epochs", "device", "precision")
        )
        own = spec.get("optimizer_digest") == newest[contest, spec["label"]].spec.get("optimizer_digest")
        return same and own and _asked_for(spec, comparison)

    return [replace(record, counted=counts(record)) for record in records]


def _contest(record: StoredRun) -> tuple[str, str]:
    return record.spec["task"], record.spec["phase"]


def _asked_for(spec: dict[str, Any], comparison: dict[str, Any]) -> bool:
    if spec["task"] not in comparison.get("tasks", [spec["task"]]):
        return False
    if spec["label"] not in comparison.get("labels", [spec["label"]]):
        return False
    if spec["phase"] == "search":
        return comparison.get("tune") != 0
    chosen = comparison.get("chosen", {}).get(spec["task"], {}).get(spec["label"], {})
    settings = spec["settings"]
    return spec["seed"] in comparison.get("seeds", [spec["seed"]]) and all(
        key in settings and settings[key] == value for key, value in chosen.items()
    )


def _in_order(asked: list[str], found: list[str]) -> list[str]:
    return list(dict.fromkeys([*asked, *sorted(set(found))]))


def _titles(names: list[str]) -> dict[str, str]:
    """Files by their stems, unless two have the same."""
    stems = {name: Path(name).stem if name.endswith(".py") else name for name in names}
    return {name: stem if list(stems.values()).count(stem) == 1 else name for name, stem in stems.items()}


def _task(name: str, title: str, labels: list[str], records: list[StoredRun], lacking: list[MissingRun]) -> TaskResults:
    about = max(records, key=lambda record: str(record.settings.get("started", ""))).settings["task"]
    by: dict[str, dict[str, list[StoredRun]]] = {"final": {}, "search": {}}
    for label in labels:
        for record in records:
            if record.spec["label"] == label:
                by[record.spec["phase"]].setdefault(label, []).append(record)
    return TaskResults(name, title, about, by["final"], by["search"], lacking)
