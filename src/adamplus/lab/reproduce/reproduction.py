"""A reproduction: runs, figures, and the page of claims. The same call resumes it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import engines
from .._compare import Choice, Plan, Request, compare, middle, plan, takes
from .._present import console, listed, say
from .._store import CorruptError, Run, Store, replace_file
from ..data import SETS, VARIABLE, data_root
from ..engines import torchrun
from ..errors import InputError
from . import choice, data_check
from .experiments import EXPERIMENTS, Experiment
from .figures import figures
from .page import page
from .readings import effective
from .request import ALL, ReproduceRequest
from .stored_runs import ENDED, place, read, read_all

PAGE = "claims.md"


@dataclass
class Reproduction:
    """The result of a reproduction."""

    page: Path
    figures: list[Path] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """Runs that failed, and why."""


@takes(ReproduceRequest)
def reproduce(request: ReproduceRequest) -> Reproduction:
    """Run the paper's experiments, draw its figures, and compare its claims with what was measured.

    Runs that are stored are reused, and interrupted ones continue from their checkpoints.

    Args: the fields of `ReproduceRequest`.

    Raises:
        InputError: if the request cannot be carried out.
    """
    request.check()
    engines.find(request.engine)
    made = Reproduction(request.out / PAGE)
    refused: list[InputError] = []
    with _data(request.data):
        todo = [(name, chosen) for name, chosen in request.comparisons() if not _left_out(name, request.experiments)]
        if request.experiments and not todo:
            raise InputError(f"no experiment has its data in {data_root()}: see `adamplus data where`")
        for name, optimizers in todo:
            try:
                made.failures |= _reproduce(name, optimizers, request)
            except InputError as error:  # a damaged data set does not stop the others
                refused.append(error)
                if len(refused) == len(todo) or torchrun.started():  # other processes would wait for this one
                    raise
                say(console(), f"{name} is left out: {error}")
                made.failures[name] = str(error)
        if torchrun.follows():
            return made
        if request.toy:
            _report_check([name for name, _ in todo], made, request)
        else:
            _write_page(made, request.out)
    return made


def _left_out(name: str, experiments: Sequence[str]) -> bool:
    """Whether an experiment is left out: with `all`, those without data are. By its name, it is an error later on."""
    if ALL not in experiments or (reason := _absent(name)) is None:
        return False
    say(console(), f"{name} is left out: {reason}")
    return True


def _reproduce(name: str, optimizers: Sequence[str], request: ReproduceRequest) -> dict[str, str]:
    """Run one experiment; returns what failed."""
    experiment = request.experiment(name)
    chosen = _changed(experiment, optimizers, request) if request.reading else list(optimizers)
    if not chosen:  # the page shows this combination by the runs of other folders
        (request.out / request.folder / name).mkdir(parents=True, exist_ok=True)
        return {}
    labels = [label for each in chosen for label in request.labels(experiment, each)]
    failures: dict[str, str] = {}
    if request.choose_after is not None:
        grid = replace(request, choose_after=None, grid=True, epochs=request.choose_after, seeds=1)
        points = [label for each in chosen for label in grid.labels(experiment, each)]
        failures = _compare(experiment, chosen, points, grid)
        if not torchrun.follows():  # only the first process knows the comparison
            labels = _choose(experiment, points, request, grid)
    return failures | _compare(experiment, chosen, labels, request)


def _changed(experiment: Experiment, optimizers: Sequence[str], request: ReproduceRequest) -> list[str]:
    """The optimizers that need runs of their own.

    The others are changed by none of the readings, or by only some of them, and have their runs there already.
    """
    kept = []
    for each in optimizers:
        optimizer = each.partition(":")[0]
        fewer = replace(request, reading=effective(request.readings, optimizer))
        if not fewer.reading or (fewer.folder != request.folder and _is_stored(experiment, each, fewer)):
            say(console(), f"{experiment.name}: {each} is as in {fewer.folder}, whose runs the page shows")
        else:
            kept.append(each)
    return kept


def _is_stored(experiment: Experiment, optimizer: str, request: ReproduceRequest) -> bool:
    """Whether the folder of a request has all runs of an optimizer."""
    if request.choose_after is not None:
        return False  # the choice may be another one
    contender = read(request.out, request.folder, experiment).contenders.get(optimizer.partition(":")[0])
    every = (contender, *contender.rest) if contender is not None else ()
    seeds = {one.label: len(one.ended(*ENDED)) for one in every}
    return all(seeds.get(label, 0) >= request.seeds for label in request.labels(experiment, optimizer))


def _choose(
    experiment: Experiment, points: Sequence[str], request: ReproduceRequest, grid: ReproduceRequest
) -> list[str]:
    """Labels of the best settings of each optimizer by validation, which are stored beside the runs."""
    stored = read(request.out, grid.folder, experiment)
    best: dict[str, str] = {}
    tried: dict[str, int] = {}
    for optimizer in dict.fromkeys(label.partition(":")[0] for label in points):
        own = [label for label in points if label.partition(":")[0] == optimizer]
        contender = stored.contenders.get(optimizer)
        ended = {one.label: one for one in ((contender, *contender.rest) if contender else ()) if one.ended(*ENDED)}
        if missing := [label for label in own if label not in ended]:
            raise InputError(
                f"{experiment.name}: {len(missing)} of {len(own)} settings of {optimizer} have not ended, so none can "
                f"be chosen: {', '.join(missing)}"
            )
        best[optimizer] = min(own, key=lambda label, ended=ended: place(experiment, ended[label].runs))
        tried[optimizer] = len(own)
    assert grid.epochs is not None
    choice.save(request.out / request.folder / experiment.name, choice.Choice(grid.epochs, best, tried))
    say(console(), f"{experiment.name}: chosen after {grid.epochs} epochs: {', '.join(best.values())}")
    return list(best.values())


def _compare(
    experiment: Experiment, optimizers: Sequence[str], labels: Sequence[str], request: ReproduceRequest
) -> dict[str, str]:
    """Run contenders of one experiment, as a comparison in its own folder; returns what failed."""
    comparison = Request(
        [request.task(experiment)],
        labels,
        seeds=1 if request.toy else request.seeds,
        tune=request.tune if request.tuned else 0,
        epochs=request.epochs_of(experiment),
        ranges=experiment.searched() if request.tuned else None,
        device=request.device,
        precision=request.precision,
        engine=request.engine,
        workers=request.workers,
        out=request.out / request.folder / experiment.name,
        rerun=request.command(experiment.name, optimizers),
    )
    if request.tuned or request.toy:
        plan(comparison, torchrun.processes())
    else:
        every = [label for name in experiment.settings for label in request.labels(experiment, name, grid=True)]
        ended = _ended(plan(replace(comparison, optimizers=every), torchrun.processes()), Store(comparison.out))
        kept = [label for label in every if label in ended or label in comparison.optimizers]
        comparison = replace(comparison, optimizers=kept)
    # The request can be carried out. With Ray, data may be elsewhere; of several processes, the first one looks.
    if _absent(experiment.name) is None and not torchrun.follows():
        data_check.note(experiment.name, comparison.out)
    return compare(**vars(comparison)).failures


def _ended(planned: Plan, store: Store) -> set[str]:
    """Labels whose runs are all stored, so that the report keeps what was run before.

    They must be made by the same code with as many seeds, as a comparison's table needs. claims.md shows all stored
    runs.
    """
    (task,) = planned.tasks
    found = set()
    for contender in planned.contenders:
        specs = planned.finals(task, contender, Choice(middle(contender.ranges), [], 0))
        if all(_has_ended(store.run(spec)) for spec in specs):
            found.add(contender.label)
    return found


def _has_ended(run: Run) -> bool:
    """Whether a run has ended without an error. A failed one would be tried again without a request."""
    try:
        return (run.end() or {}).get("status") in ("finished", "diverged")
    except CorruptError:
        return False


def _report_check(names: Sequence[str], made: Reproduction, request: ReproduceRequest) -> None:
    """Print whether the set-up works, after toys of these experiments."""
    if made.failures:
        return  # which the comparisons have printed
    say(
        console(),
        f"The set-up works for {listed(names)}: data, training, figures and page. The results in "
        f"{request.out / request.folder} are of toys, and say nothing about the optimizers. The same command without "
        "--toy runs the experiments; docs/reproduce.md has the times that they take.",
    )


def _write_page(made: Reproduction, out: Path) -> None:
    """Write figures and page of all stored runs."""
    stored = read_all(out)
    out.mkdir(parents=True, exist_ok=True)
    for experiments in stored.values():
        made.figures += figures(list(experiments.values()), out / "figures")
    absent = [name for name in EXPERIMENTS if _absent(name) is not None]
    replace_file(made.page, page(stored, absent, made.figures, out).encode())
    say(console(), f"Claims: {made.page}")


def _absent(name: str) -> str | None:
    try:
        SETS[name].locate(data_root())
    except InputError as error:
        return str(error)
    return None


@contextmanager
def _data(folder: Path | None) -> Iterator[None]:
    """Let tasks find their data in a folder, here and in the processes that are started meanwhile."""
    before = os.environ.get(VARIABLE)
    if folder is not None:
        os.environ[VARIABLE] = str(folder.expanduser().resolve())
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before
