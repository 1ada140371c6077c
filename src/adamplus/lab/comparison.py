"""A comparison: settings are chosen by trials on validation data, then fresh seeds tell who is how good."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from . import _search, engines
from ._closing import show, tell
from ._errors import InputError
from ._plan import Entry, Plan, command, plan, split
from ._progress import Watch, console, name, say
from ._search import Choice
from ._spec import Spec
from ._store import END, SETTINGS, CorruptError, Store, write
from .engines import Execute, torchrun
from .optimizers import LogUniform
from .tasks import EMBEDDED

__all__ = ["EMBEDDED", "PAPER", "Outcome", "compare", "split", "tell"]

COMPARISON = "comparison.json"
PAPER = ("adam-plus", "nigt", "sgd", "msgd", "adagrad", "adam")
"""The paper's six."""


@dataclass
class Outcome:
    """What became of a comparison."""

    root: Path
    chosen: dict[str, dict[str, dict[str, Any]]]
    """Settings of the final runs, by task and label."""
    trained: int = 0
    """Runs that this call has trained."""
    kept: int = 0
    """Runs that were there."""
    failures: dict[str, str] = field(default_factory=dict)
    """Runs that raised, and what."""
    page: Path | None = None
    """The report; None where it could not be written."""


def compare(
    tasks: Sequence[str],
    optimizers: Sequence[str],
    *,
    seeds: int = 3,
    tune: int = 0,
    epochs: int | None = None,
    out: Path = Path("runs"),
    engine: str = "local",
    workers: int | None = None,
    device: str | None = None,
    precision: str | None = None,
    search: str = "random",
    ranges: Mapping[str, Mapping[str, LogUniform]] | None = None,
    rerun: str | None = None,
) -> Outcome:
    """Train tasks with several optimizers, with the same budget for each, and report.

    Runs of the same specification that are in the folder already are kept, and interrupted ones go on from their
    checkpoints: after a kill, the same call completes the comparison.

    Args:
        tasks: names, or files that end in .py.
        optimizers: names or files, each with settings if some are to be fixed: `adam-plus:lr=0.3;beta=0.5`.
        seeds: of the final runs: 1, 2, … up to this.
        tune: trials of each optimizer on each task; 0 takes the middle of each range.
        epochs: of every run; the task's own by itself.
        out: the folder of runs and report.
        engine: `local` for processes of this machine, `ray` for a cluster. Where torchrun started this process, all
            that it started train each run together.
        workers: runs at a time; as many as there are cores by itself, and one on an accelerator.
        device: `cpu`, `cuda` or `cuda:1`; CUDA by itself, where there is one.
        precision: `float32` or `bfloat16`, of autocast; the latter by itself on CUDA.
        search: `random`, or an even `grid`; both in the logarithm.
        ranges: by optimizer, settings that are searched beside the learning rate, or in other ranges than usual.
        rerun: the command that does the same again, where that is another one than `adamplus compare`.

    Raises:
        InputError: where something cannot be done as it was asked for; nothing has been run then.
        OSError: where the folder cannot be written to any more; what was written stays.
    """
    if torchrun.follows():
        torchrun.serve()
        return Outcome(out, {})
    engine = "torchrun" if torchrun.started() else engine
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers train nothing: pass --workers 1 or more")
    opened = engines.find(engine)
    planned = plan(
        tasks,
        optimizers,
        seeds=seeds,
        tune=tune,
        epochs=epochs,
        search=search,
        device=device,
        precision=precision,
        elsewhere=engine == "ray",
        ranges=ranges,
    )
    words = rerun or command(planned, engine, out)
    store, speaker = Store(out), console()
    with store.lock():
        try:
            with opened(out, workers) as execute:
                outcome = _Comparison(planned, store, execute, speaker).complete(_record(planned, engine, words))
        except KeyboardInterrupt:
            say(speaker, f"Stopped. Nothing is lost: the same command goes on from here:\n  {words}")
            raise
        outcome.page = show(out, speaker)
        _tell_failures(outcome, speaker)
    return outcome


class _Comparison:
    """A comparison that is on."""

    def __init__(self, planned: Plan, store: Store, execute: Execute, console: Console) -> None:
        self.planned, self.store, self.execute, self.console = planned, store, execute, console
        self.pairs = [(task, entry) for task in planned.tasks for entry in planned.entries]
        self.outcome = Outcome(store.root, {})

    def complete(self, record: dict[str, Any]) -> Outcome:
        """Both phases; the record is written before, between and after."""
        began, before = time.monotonic(), _seconds_before(self.store.root, record)
        trials = {(task, entry.label): self.planned.trials(task, entry) for task, entry in self.pairs}
        searched = [spec for specs in trials.values() for spec in specs]
        self._write(record, searched)
        self._train("Search", searched)
        choices = {
            (task, entry.label): self._choose(task, entry, trials[task, entry.label]) for task, entry in self.pairs
        }
        for task, entry in self.pairs:
            choice = choices[task, entry.label]
            self.outcome.chosen.setdefault(task, {})[entry.label] = entry.settings(choice.settings)
            if choice.edge:
                record.setdefault("edge", {}).setdefault(task, {})[entry.label] = choice.edge
        finals = [
            spec for task, entry in self.pairs for spec in self.planned.finals(task, entry, choices[task, entry.label])
        ]
        record["chosen"] = self.outcome.chosen
        self._write(record, [*searched, *finals])
        self._train("Final runs", finals)
        record["wall_seconds"] = round(before + time.monotonic() - began, 3)
        self._write(record, [*searched, *finals])
        return self.outcome

    def _write(self, record: dict[str, Any], specs: Sequence[Spec]) -> None:
        """What is compared, and by which runs: the folder may have others."""
        runs = [self.store.run(spec).folder.relative_to(self.store.root).as_posix() for spec in specs]
        write(self.store.root / COMPARISON, {**record, "runs": runs})

    def _train(self, title: str, specs: Sequence[Spec]) -> None:
        """Train those that are not there yet."""
        if not specs:
            return
        todo = [spec for spec in specs if not self._kept(spec)]
        kept = len(specs) - len(todo)
        self.outcome.kept += kept
        say(self.console, f"{title}: {len(todo)} to train" + (f", {kept} there already" if kept else ""))
        metrics = {name: task.metric for name, (task, _) in self.planned.tasks.items()}
        with Watch(self.console, self.store, title, todo, metrics) as watch:
            self.execute(todo, watch.done)
        self.outcome.trained += len(todo)
        told = {ended.spec.key(): ended.failure for ended in watch.ended}
        for spec in specs:
            if (reason := told.get(spec.key()) or self._trouble(spec)) is not None:
                self.outcome.failures[f"{spec.task} · {spec.label} · {name(spec)}"] = reason

    def _trouble(self, spec: Spec) -> str | None:
        """Why a run that has ended tells nothing, if so."""
        run = self.store.run(spec)
        end, column = run.end() or {}, self._column(spec)
        if end.get("status") == "failed":
            return str(end.get("reason"))
        if end.get("status") == "finished" and column not in (last := run.metrics()[-1]):
            measured = ", ".join(key for key in last if key.startswith(("validation_", "test_")))
            return f"the task measures no {column}; it has {measured}"
        return None

    def _column(self, spec: Spec) -> str:
        """What a run is judged by, after its last epoch."""
        return f"{'validation' if spec.phase == 'search' else 'test'}_{self.planned.tasks[spec.task][0].metric}"

    def _kept(self, spec: Spec) -> bool:
        """Whether a run has ended, and not by an error; what is in the way of a new attempt is taken out of it."""
        run = self.store.run(spec)
        if not (run.folder / SETTINGS).exists() and set(_names(run.folder)) <= {END}:
            (run.folder / END).unlink(missing_ok=True)  # it failed before it could say what it was
            return False
        try:
            run.check(spec)
            end = run.end()
        except CorruptError as error:
            say(self.console, engines.set_aside(self.store, run, error))
            return False
        if end is not None and end["status"] == "failed":
            (run.folder / END).unlink()
            return False
        return end is not None

    def _choose(self, task: str, entry: Entry, specs: Sequence[Spec]) -> Choice:
        if not specs:
            return Choice(_search.middle(entry.ranges), [], 0)
        found, _ = self.planned.tasks[task]
        tried = [{key: spec.settings[key] for key in entry.ranges} for spec in specs]
        results = [self._result(spec) for spec in specs]
        choice = _search.choose(tried, results, entry.ranges, found.better)
        if not choice.finished:
            say(self.console, f"{task} · {entry.label}: no trial came to its end; the middle of the range is used")
        for key in choice.edge:
            value = choice.settings[key]
            say(self.console, f"{task} · {entry.label}: {key}={value:g} is best, and nothing beyond it was tried")
        return choice

    def _result(self, spec: Spec) -> float | None:
        run = self.store.run(spec)
        end = run.end() or {}
        return run.metrics()[-1].get(self._column(spec)) if end.get("status") == "finished" else None


def _record(planned: Plan, engine: str, words: str) -> dict[str, Any]:
    """What comparison.json says from the beginning."""
    searched = {entry.label: {key: str(values) for key, values in entry.ranges.items()} for entry in planned.entries}
    return {
        "command": words,
        "date": datetime.now(UTC).date().isoformat(),
        "tasks": list(planned.tasks),
        "labels": [entry.label for entry in planned.entries],
        "seeds": list(range(1, planned.seeds + 1)),
        "tune": planned.tune,
        "search": searched if planned.tune else {},
        "search_kind": planned.search,
        "chosen": {},
        "engine": engine,
    }


def _seconds_before(root: Path, record: dict[str, Any]) -> float:
    """What the same comparison has taken already: one that finds all of its runs there did not take no time."""
    with suppress(OSError, ValueError, AttributeError, TypeError):
        earlier = json.loads((root / COMPARISON).read_text(encoding="utf-8"))
        if earlier["command"] == record["command"]:
            return float(earlier.get("wall_seconds", 0.0))
    return 0.0


def _names(folder: Path) -> list[str]:
    """What is in a run's folder, but for files that were about to replace others."""
    return [path.name for path in folder.iterdir() if path.suffix != ".new"] if folder.exists() else []


def _tell_failures(outcome: Outcome, console: Console) -> None:
    if outcome.failures:
        say(console, f"Failed: {len(outcome.failures)} of the runs, which the same command tries again:")
    for run, reason in outcome.failures.items():
        say(console, f"  {run}: {' '.join(reason.split())}")
