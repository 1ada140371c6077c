"""The runs of a folder, read and sorted by task and contender."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._present import Style, styles
from .._store import COMPARISON, CorruptError, Run, Store, read_json
from ..errors import InputError
from .missing_runs import MissingRun, missing_runs
from .schema import check_comparison, check_run


@dataclass(frozen=True)
class StoredRun:
    """A run as its folder stores it."""

    folder: str
    settings: dict[str, Any]
    epochs: list[dict[str, Any]]
    end: dict[str, Any]
    """Empty until the run has ended."""
    counted: bool = True
    """False for runs of an earlier comparison in the same folder: another task file, budget or choice of settings."""

    @property
    def spec(self) -> dict[str, Any]:
        """The specification of the run."""
        return self.settings["spec"]

    @property
    def status(self) -> str:
        """How the run ended; `unfinished` if it has not."""
        return self.end.get("status", "unfinished")

    def last(self, column: str) -> float | None:
        """A column's value after the last epoch; None if there is none."""
        value = self.epochs[-1].get(column) if self.epochs else None
        return None if value is None else float(value)


@dataclass(frozen=True)
class TaskResults:
    """The counted runs of one task, by label."""

    name: str
    title: str
    """The task's name; the stem of a file's path."""
    about: dict[str, Any]
    finals: dict[str, list[StoredRun]]
    trials: dict[str, list[StoredRun]]
    missing: list[MissingRun] = field(default_factory=list)
    """Runs of this task that comparison.json names and that do not exist."""

    @property
    def metric(self) -> str:
        """The metric by which contenders are compared."""
        return self.about["metric"]

    @property
    def higher(self) -> bool:
        """Whether a higher metric is better."""
        return self.about.get("better") == "higher"

    def of(self, label: str, *statuses: str) -> list[StoredRun]:
        """The final runs of a contender with one of these statuses."""
        return [run for run in self.finals.get(label, []) if run.status in statuses]


@dataclass(frozen=True)
class Results:
    """All runs of a folder, and its comparison.json."""

    comparison: dict[str, Any]
    """The content of comparison.json; empty if there is none."""
    labels: list[str]
    tasks: list[TaskResults]
    runs: list[StoredRun]
    unreadable: dict[str, str] = field(default_factory=dict)
    """Folders that cannot be read, with the reasons."""
    missing: list[MissingRun] = field(default_factory=list)
    """Runs that comparison.json names and that do not exist."""

    @property
    def styles(self) -> dict[str, Style]:
        """Colour and dash of each contender."""
        return dict(zip(self.labels, styles(self.labels), strict=True))

    @property
    def untuned(self) -> list[str]:
        """Contenders whose settings a search would have chosen, in a comparison without one."""
        tuned = self.comparison.get("tune") != 0
        return [] if tuned else [label for label in self.labels if self.ranges(label)]

    def chosen(self, task: TaskResults, label: str) -> dict[str, Any] | None:
        """The settings of the final runs; None if none have been chosen yet."""
        planned = self.comparison.get("chosen", {}).get(task.name, {}).get(label)
        finals = task.finals.get(label)
        return finals[0].spec["settings"] if finals else planned

    def ranges(self, label: str) -> dict[str, Any]:
        """The declared search ranges of a contender, whether they were searched or not."""
        return (self.comparison.get("ranges") or self.comparison.get("search") or {}).get(label, {})


def read(root: Path) -> Results:
    """Read all runs under a comparison's folder."""
    store = Store(root)
    stored, unreadable = [], {}
    for run in store.runs():
        folder = run.folder.relative_to(root).as_posix()
        try:
            stored.append(read_run(run, folder))
        except CorruptError as error:
            unreadable[folder] = str(error)
    if not stored:
        broken = "".join(f"; {folder}: {reason}" for folder, reason in unreadable.items())
        raise InputError(f"{root}: there are no runs to report{broken}. Make some with `adamplus compare --out {root}`")
    comparison = _comparison(root)
    stored = _count(stored, comparison)
    counted = [run for run in stored if run.counted]
    if not counted:
        raise InputError(
            f"{root}: none of its {len(stored)} runs belongs to the comparison in {COMPARISON}. "
            "Start that comparison again, or remove the file to report the runs alone"
        )
    labels = _in_order(comparison.get("labels", []), [run.spec["label"] for run in counted])
    names = _in_order(comparison.get("tasks", []), [run.spec["task"] for run in counted])
    titles = _titles(names)
    missing = missing_runs(root, comparison, [*(run.folder for run in stored), *unreadable])
    tasks = [
        _task(
            name,
            titles[name],
            labels,
            [run for run in counted if run.spec["task"] == name],
            [run for run in missing if run.task == name],
        )
        for name in names
        if any(run.spec["task"] == name for run in counted)
    ]
    return Results(comparison, labels, tasks, stored, unreadable, missing)


def read_run(run: Run, folder: str) -> StoredRun:
    """Read a run from its folder; CorruptError if its files lack something."""
    run.check()
    settings, epochs, end = run.settings(), run.metrics(), run.end() or {}
    check_run(settings, epochs, end)
    return StoredRun(folder, settings, epochs, end)


def _comparison(root: Path) -> dict[str, Any]:
    path = root / COMPARISON
    if not path.exists():
        return {}
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): remove it to report the runs alone") from error
    return check_comparison(path, content)


def _count(stored: list[StoredRun], comparison: dict[str, Any]) -> list[StoredRun]:
    """Mark the runs of the last comparison: earlier ones in the folder may have had another task or budget."""
    newest: dict[Any, StoredRun] = {}
    for run in sorted(stored, key=lambda run: str(run.settings.get("started", ""))):
        newest[_group(run)] = run
        newest[_group(run), run.spec["label"]] = run

    def counts(run: StoredRun) -> bool:
        if "runs" in comparison:
            return run.folder in comparison["runs"]
        spec, group = run.spec, _group(run)
        same = all(
            spec.get(key) == newest[group].spec.get(key) for key in ("task_digest", "epochs", "device", "precision")
        )
        own = spec.get("optimizer_digest") == newest[group, spec["label"]].spec.get("optimizer_digest")
        return same and own and _in_plan(spec, comparison)

    return [replace(run, counted=counts(run)) for run in stored]


def _group(run: StoredRun) -> tuple[str, str]:
    return run.spec["task"], run.spec["phase"]


def _in_plan(spec: dict[str, Any], comparison: dict[str, Any]) -> bool:
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


def _in_order(planned: list[str], found: list[str]) -> list[str]:
    return list(dict.fromkeys([*planned, *sorted(set(found))]))


def _titles(names: list[str]) -> dict[str, str]:
    """Titles of tasks: a file's stem, unless two files have the same."""
    stems = {name: Path(name).stem if name.endswith(".py") else name for name in names}
    return {name: stem if list(stems.values()).count(stem) == 1 else name for name, stem in stems.items()}


def _task(name: str, title: str, labels: list[str], stored: list[StoredRun], missing: list[MissingRun]) -> TaskResults:
    about = max(stored, key=lambda run: str(run.settings.get("started", ""))).settings["task"]
    by: dict[str, dict[str, list[StoredRun]]] = {"final": {}, "search": {}}
    for label in labels:
        for run in stored:
            if run.spec["label"] == label:
                by[run.spec["phase"]].setdefault(label, []).append(run)
    return TaskResults(name, title, about, by["final"], by["search"], missing)
