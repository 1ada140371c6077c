"""A comparison: trials on validation data choose settings, then runs with fresh seeds measure each contender."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from .. import engines
from .._present import as_typed, console, listed, say
from .._store import CorruptError, Spec, Store
from ..engines import EndedRun, Execute, torchrun
from ..report import show
from . import search as _search
from .options import takes
from .plan import Plan, PlannedContender, plan
from .progress import Stopped, Watch, name
from .record import Record
from .request import Request
from .reuse import Reuse
from .search import Choice


@dataclass
class Outcome:
    """The result of a comparison."""

    root: Path
    chosen: dict[str, dict[str, dict[str, Any]]]
    """Settings of the final runs, by task and contender."""
    trained: int = 0
    """How many runs this call has trained."""
    kept: int = 0
    """How many stored runs were reused."""
    failures: dict[str, str] = field(default_factory=dict)
    """Runs that failed, and why."""


@takes(Request)
def compare(request: Request) -> Outcome:
    """Train tasks with several optimizers, with the same budget for each, and write a report.

    Runs of the same specification that are already in the folder are reused, and interrupted ones continue from their
    checkpoints. After a kill, the same call completes the comparison.

    Args: the fields of `Request`.

    Returns:
        The chosen settings, how many runs were trained and reused, and which failed.

    Raises:
        InputError: if the request cannot be carried out. Nothing has been run then.
        OSError: if the folder cannot be written to any more. Everything that was written stays.
    """
    if not torchrun.started():
        return _lead(request)
    with torchrun.joined(request.device):
        if torchrun.follows():
            torchrun.serve()
            return Outcome(request.out, {})
        return _lead(replace(request, engine="torchrun"))


def _lead(request: Request) -> Outcome:
    """Carry out the comparison, as the only process or the first."""
    start = engines.find(request.engine)
    if request.engine == "torchrun":
        torchrun.check_started()
    planned = plan(request, torchrun.processes())
    command = request.rerun or planned.request.command()
    store, output = Store(request.out), console()
    reuse = Reuse(store, output, planned)
    if labels := planned.untuned:
        say(
            output,
            f"Nothing is tuned (--tune 0): {listed(labels)} {'have' if len(labels) > 1 else 'has'} the middle of the "
            "declared range, which may be far from a good setting. --tune 5 searches.",
        )
    with store.lock():
        try:
            with start(request.out, request.workers) as execute:
                record = Record(request.out, planned, command, reuse)
                outcome = _Comparison(planned, store, execute, output, reuse, record).complete()
        except KeyboardInterrupt as error:
            # A command in `rerun` may leave out paths that the user has given, so it is not printed.
            again = "." if request.rerun else f":\n  {as_typed(command)}"
            lost = error.lost if isinstance(error, Stopped) else []
            what = f"Training that is lost: {listed(lost)}. Everything else is stored" if lost else "Nothing is lost"
            say(output, f"Stopped. {what}: the same command continues from here{again}")
            raise
        show(request.out, output, alone=request.rerun is None)
        _report_failures(outcome, output)
    return outcome


class _Comparison:
    """A comparison in progress."""

    def __init__(
        self, planned: Plan, store: Store, execute: Execute, console: Console, reuse: Reuse, record: Record
    ) -> None:
        self.planned, self.store, self.execute, self.console = planned, store, execute, console
        self.reuse, self.record = reuse, record
        self.pairs = [(task, contender) for task in planned.tasks for contender in planned.contenders]
        self.outcome = Outcome(store.root, {})

    def complete(self) -> Outcome:
        """Run the search and the final runs."""
        trials = [self.planned.trials(task, contender) for task, contender in self.pairs]
        self._train("Search", [spec for specs in trials for spec in specs])
        choices = [self._choose(*pair, specs) for pair, specs in zip(self.pairs, trials, strict=True)]
        finals: list[Spec] = []
        for (task, contender), choice in zip(self.pairs, choices, strict=True):
            self.outcome.chosen.setdefault(task, {})[contender.label] = contender.settings(choice.settings)
            if choice.edge:
                self.record.content.setdefault("edge", {}).setdefault(task, {})[contender.label] = choice.edge
            finals += self.planned.finals(task, contender, choice)
        self.record.content["chosen"] = self.outcome.chosen
        self._train("Final runs", finals)
        return self.outcome

    def _train(self, title: str, specs: Sequence[Spec]) -> None:
        """Train the runs that cannot be reused. The record is written before, and whenever a run has ended."""
        self.record.content["runs"] += [self.store.run(s).folder.relative_to(self.store.root).as_posix() for s in specs]
        todo, kept = self.reuse.select(specs)
        self.outcome.kept += kept
        self.record.write()
        if not specs:
            return
        say(self.console, f"{title}: {len(todo)} to train" + (f", {kept} reused" if kept else ""))
        metrics = {name: task.metric for name, (task, _) in self.planned.tasks.items()}
        with Watch(self.console, self.store, title, todo, metrics) as watch:

            def done(ended: EndedRun) -> None:
                watch.done(ended)
                if ended.failure is not None:
                    self.reuse.record_unbegun(ended.spec, self.planned.tasks[ended.spec.task][0], ended.failure)
                self.record.write()

            try:
                self.execute(todo, done)
            except KeyboardInterrupt:
                raise Stopped(watch.unsaved()) from None
            finally:
                self.record.write()
        self.outcome.trained += len(todo)
        failures = {ended.spec.key(): ended.failure for ended in watch.ended}
        for spec in specs:
            if (reason := failures.get(spec.key()) or self._trouble(spec)) is not None:
                self.outcome.failures[f"{spec.task} · {spec.label} · {name(spec)}"] = reason

    def _trouble(self, spec: Spec) -> str | None:
        """Why a run that has ended has no result; None if it has one."""
        column = self._column(spec)
        try:
            end, lines = self.store.run(spec).result(spec)
        except CorruptError as error:
            return f"its files are damaged: {error}"
        if end.get("status") == "failed":
            return str(end.get("reason"))
        if end.get("status") == "finished" and column not in (last := lines[-1]):
            measured = ", ".join(key for key in last if key.startswith(("validation_", "test_")))
            return f"the task is judged by {column} and measures {measured}: correct the task. The run is stored"
        return None

    def _column(self, spec: Spec) -> str:
        """The column by which a run is judged, after its last epoch."""
        return f"{'validation' if spec.phase == 'search' else 'test'}_{self.planned.tasks[spec.task][0].metric}"

    def _choose(self, task: str, contender: PlannedContender, specs: Sequence[Spec]) -> Choice:
        if not specs:
            return Choice(_search.middle(contender.ranges), [], 0)
        found, _ = self.planned.tasks[task]
        tried = [{key: spec.settings[key] for key in contender.ranges} for spec in specs]
        results = [self._result(spec) for spec in specs]
        choice = _search.choose(tried, results, contender.ranges, found.better)
        if not choice.finished:
            say(self.console, f"{task} · {contender.label}: no trial finished; the middle of each range is used")
        for key in choice.edge:
            value = choice.settings[key]
            say(self.console, f"{task} · {contender.label}: {key}={value:g} is best, at the edge of the values tried")
        return choice

    def _result(self, spec: Spec) -> float | None:
        try:
            end, lines = self.store.run(spec).result(spec)
        except CorruptError:  # reported by `_trouble`
            return None
        return lines[-1].get(self._column(spec)) if end.get("status") == "finished" else None


def _report_failures(outcome: Outcome, console: Console) -> None:
    if outcome.failures:
        say(console, f"Failed: {len(outcome.failures)} of the runs, which the same command tries again:")
    for run, reason in outcome.failures.items():
        say(console, f"  {run}: {' '.join(reason.split())}")
