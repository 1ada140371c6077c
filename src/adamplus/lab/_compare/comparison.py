"""A comparison: settings are chosen by trials on validation data, then fresh seeds tell who is how good."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from .. import engines
from .._present import console, say
from .._store import COMPARISON, Spec, Store, write_json
from ..engines import EndedRun, Execute, torchrun
from ..errors import InputError
from ..optimizers import LogUniform
from ..report import show
from . import search as _search
from .plan import Entry, Plan, command, plan
from .progress import Watch, name
from .reuse import Keeping
from .search import Choice

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
    first_batch: int = 0,
    probe: bool = False,
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
        first_batch: T₀, rows of a first step of its own; 0 for none.
        probe: measure errors of z and g after each epoch, in runs of the Adam⁺ family.
        ranges: by optimizer, settings that are searched beside the learning rate, or in other ranges than usual.
        rerun: the command that does the same again, where that is another one than `adamplus compare`.

    Raises:
        InputError: where something cannot be done as it was asked for; nothing has been run then.
        OSError: where the folder cannot be written to any more; what was written stays.
    """
    with torchrun.joined(device) if torchrun.started() else nullcontext():
        if torchrun.follows():
            torchrun.serve()
            return Outcome(out, {})
        return _lead(
            tasks,
            optimizers,
            seeds=seeds,
            tune=tune,
            epochs=epochs,
            out=out,
            engine="torchrun" if torchrun.started() else engine,
            workers=workers,
            device=device,
            precision=precision,
            search=search,
            first_batch=first_batch,
            probe=probe,
            ranges=ranges,
            rerun=rerun,
        )


def _lead(
    tasks: Sequence[str],
    optimizers: Sequence[str],
    *,
    out: Path,
    engine: str,
    workers: int | None,
    rerun: str | None,
    **asked: Any,
) -> Outcome:
    """Do it, as the only process or the first."""
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers train nothing: pass --workers 1 or more")
    opened = engines.find(engine)
    if engine == "torchrun":
        torchrun.check_started()
    planned = plan(tasks, optimizers, elsewhere=engine == "ray", processes=torchrun.processes(), **asked)
    words = rerun or command(planned, engine, out, torchrun.command_prefix() if engine == "torchrun" else ["adamplus"])
    store, speaker = Store(out), console()
    keeping = Keeping(store, speaker, planned.device, elsewhere=engine == "ray")
    with store.lock():
        try:
            with opened(out, workers) as execute:
                record = _Record(out, _told(planned, engine, words), keeping)
                outcome = _Comparison(planned, store, execute, speaker, keeping, record).complete()
        except KeyboardInterrupt:
            # what was asked for by another command, with folders that a record does not name, is asked for by that one
            again = "" if rerun else f":\n  {words}"
            say(speaker, f"Stopped. Nothing is lost: the same command goes on from here{again}")
            raise
        show(out, speaker, alone=rerun is None)
        _tell_failures(outcome, speaker)
    return outcome


class _Comparison:
    """A comparison that is on."""

    def __init__(
        self, planned: Plan, store: Store, execute: Execute, console: Console, keeping: Keeping, record: "_Record"
    ) -> None:
        self.planned, self.store, self.execute, self.console = planned, store, execute, console
        self.keeping, self.record = keeping, record
        self.pairs = [(task, entry) for task in planned.tasks for entry in planned.entries]
        self.outcome = Outcome(store.root, {})

    def complete(self) -> Outcome:
        """Both phases."""
        trials = {(task, entry.label): self.planned.trials(task, entry) for task, entry in self.pairs}
        searched = [spec for specs in trials.values() for spec in specs]
        self._train("Search", searched)
        choices = {
            (task, entry.label): self._choose(task, entry, trials[task, entry.label]) for task, entry in self.pairs
        }
        for task, entry in self.pairs:
            choice = choices[task, entry.label]
            self.outcome.chosen.setdefault(task, {})[entry.label] = entry.settings(choice.settings)
            if choice.edge:
                self.record.content.setdefault("edge", {}).setdefault(task, {})[entry.label] = choice.edge
        finals = [
            spec for task, entry in self.pairs for spec in self.planned.finals(task, entry, choices[task, entry.label])
        ]
        self.record.content["chosen"] = self.outcome.chosen
        self._train("Final runs", finals)
        return self.outcome

    def _train(self, title: str, specs: Sequence[Spec]) -> None:
        """Train those that are not there yet; the record is written before, and whenever one has ended."""
        self.record.content["runs"] += [self.store.run(s).folder.relative_to(self.store.root).as_posix() for s in specs]
        todo, kept = self.keeping.split(specs)
        self.outcome.kept += kept
        self.record.write()
        if not specs:
            return
        say(self.console, f"{title}: {len(todo)} to train" + (f", {kept} there already" if kept else ""))
        metrics = {name: task.metric for name, (task, _) in self.planned.tasks.items()}
        with Watch(self.console, self.store, title, todo, metrics) as watch:

            def done(ended: EndedRun) -> None:
                watch.done(ended)
                if ended.failure is not None:
                    self.keeping.record_unbegun(ended.spec, self.planned.tasks[ended.spec.task][0], ended.failure)
                self.record.write()

            try:
                self.execute(todo, done)
            finally:
                self.record.write()
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
            return f"the task measures no {column}; it has {measured}. It is kept all the same: mend the task"
        return None

    def _column(self, spec: Spec) -> str:
        """What a run is judged by, after its last epoch."""
        return f"{'validation' if spec.phase == 'search' else 'test'}_{self.planned.tasks[spec.task][0].metric}"

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


class _Record:
    """comparison.json: what is compared, and by which runs, for the folder may have others."""

    def __init__(self, root: Path, content: dict[str, Any], keeping: Keeping) -> None:
        self.path, self.content, self.keeping = root / COMPARISON, content, keeping
        self.began, self.before = time.monotonic(), self._seconds_before()

    def write(self) -> None:
        """Replace it, with the time until now: a kill loses no more than what the runs take that are on."""
        seconds = round(self.before + time.monotonic() - self.began, 3)
        write_json(self.path, {**self.content, "kept_of": self.keeping.of(), "wall_seconds": seconds})

    def _seconds_before(self) -> float:
        """What the same comparison has taken already, killed or complete."""
        with suppress(OSError, ValueError, AttributeError, TypeError, KeyError):
            earlier = json.loads(self.path.read_text(encoding="utf-8"))
            if earlier["command"] == self.content["command"]:
                return float(earlier["wall_seconds"])
        return 0.0


def _told(planned: Plan, engine: str, words: str) -> dict[str, Any]:
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
        "ranges": searched,
        "search_kind": planned.search,
        "chosen": {},
        "engine": engine,
        "runs": [],
    }


def _tell_failures(outcome: Outcome, console: Console) -> None:
    if outcome.failures:
        say(console, f"Failed: {len(outcome.failures)} of the runs, which the same command tries again:")
    for run, reason in outcome.failures.items():
        say(console, f"  {run}: {' '.join(reason.split())}")
