"""The whole of a reproduction: runs, figures, and the page of claims; resumed by the same call."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from .. import engines
from .._compare import Choice, Plan, compare, middle, plan
from .._present import console, say
from .._store import CorruptError, Run, Store, replace_file
from ..data import SETS, VARIABLE, data_root
from ..engines import torchrun
from ..errors import InputError, nearest
from ..tasks import find
from . import data_check
from .command import command
from .experiments import EXPERIMENTS, GROWTH, NAMES, Experiment, Protocol
from .figures import figures
from .page import page
from .stored_runs import folder_of, folders, read

PAGE = "claims.md"
ALL = "all"


@dataclass
class Reproduction:
    """What became of it."""

    page: Path
    figures: list[Path] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """Runs that raised, and what."""


@dataclass(frozen=True)
class Budget:
    """How the runs of a reproduction are made."""

    protocol: Protocol
    quick: bool
    epochs: int | None
    seeds: int
    tune: int
    grid: bool
    weight_decay: float
    machine: dict[str, Any]
    """Engine, workers, device and precision, as `compare` takes them."""

    @property
    def folder(self) -> str:
        """Where they are."""
        return folder_of(self.protocol, quick=self.quick, epochs=self.epochs, weight_decay=self.weight_decay)

    def epochs_of(self, experiment: Experiment) -> int:
        """Of every run: the task's own, a tenth of them, or what was asked for."""
        if self.epochs is not None:
            return self.epochs
        own = find(experiment.task(self.protocol))[0].epochs
        return max(1, own // 10) if self.quick else own


def names() -> list[str]:
    """What can be asked for."""
    return [*EXPERIMENTS, "growth", ALL]


def reproduce(
    asked: Sequence[str],
    *,
    data: Path | None = None,
    out: Path = Path("reproduction"),
    protocol: str = "paper",
    quick: bool = False,
    epochs: int | None = None,
    seeds: int = 3,
    tune: int = 8,
    optimizers: Sequence[str] = tuple(NAMES),
    grid: bool = False,
    weight_decay: float = 0.0,
    engine: str = "local",
    workers: int | None = None,
    device: str | None = None,
    precision: str | None = None,
) -> Reproduction:
    """Run the paper's experiments, draw its figures, and set its claims beside what was measured.

    Args:
        asked: experiments; `growth` is Adam⁺ on both image sets; `all` is all whose data is there; none, to make
            figures and page anew of what is stored.
        data: the folder of all data sets; `data_root()` by itself.
        out: the folder of runs, figures and page.
        protocol: `paper`, its settings word for word; or `tuned`, the same search for every optimizer.
        quick: a tenth of the epochs, with schedules of the same shape.
        epochs: of every run, instead.
        seeds: of every optimizer.
        tune: trials of every optimizer, in the tuned protocol.
        optimizers: of the paper's six, also as `name:key=value`: in the paper's protocol, of what the paper tried; in
            the tuned one, what is not to be searched.
        grid: all settings that the paper chose from, and not only those that it calls best.
        weight_decay: of every optimizer, in the paper's protocol, which says nothing of it.
        engine: as of `compare`; so are `workers`, `device` and `precision`.
        workers: runs at a time.
        device: where.
        precision: of autocast.

    Raises:
        InputError: where something cannot be done as it was asked for.
    """
    _check(asked, optimizers, protocol, grid, weight_decay, tune)
    engines.find(engine)
    if quick and epochs is not None:
        raise InputError("--quick says how many epochs, and so does --epochs: leave one of them out")
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers train nothing: pass --workers 1 or more")
    if not asked and not out.is_dir():
        raise InputError(f"there is no folder {out}: pass --out of one that has runs, or experiments to run")
    kind: Protocol = "tuned" if protocol == "tuned" else "paper"
    for name, chosen in _comparisons(asked, optimizers):
        for label in chosen:
            EXPERIMENTS[name].labels(label, kind)  # refused before anything is run
    machine = {"engine": engine, "workers": workers, "device": device, "precision": precision}
    budget = Budget(kind, quick, epochs, seeds, tune, grid, weight_decay, machine)
    made = Reproduction(out / PAGE)
    refused: list[InputError] = []
    with _data(data):
        todo = [(name, chosen) for name, chosen in _comparisons(asked, optimizers) if not _left_out(name, asked)]
        if asked and not todo:
            raise InputError(f"no experiment has its data in {data_root()}: adamplus data where says what to do")
        for name, chosen in todo:
            try:
                made.failures |= _compare(EXPERIMENTS[name], chosen, budget, out)
            except InputError as error:  # one set that is damaged need not keep the others from being run
                refused.append(error)
                if len(refused) == len(todo) or torchrun.started():  # other processes would wait for this one
                    raise
                say(console(), f"{name} is left out: {error}")
                made.failures[name] = str(error)
        if not torchrun.follows():
            _tell(made, out)
    return made


def _left_out(name: str, asked: Sequence[str]) -> bool:
    """Of everything, what has no data is left out; what is asked for by its name is an error later on."""
    if ALL not in asked or (reason := _absent(name)) is None:
        return False
    say(console(), f"{name} is left out: {reason}")
    return True


def _compare(experiment: Experiment, optimizers: Sequence[str], budget: Budget, out: Path) -> dict[str, str]:
    """One experiment, as a comparison in a folder of its own; what failed."""
    root, task = out / budget.folder / experiment.name, experiment.task(budget.protocol)
    how: dict[str, Any] = {"seeds": budget.seeds, "epochs": budget.epochs_of(experiment), "tune": 0}
    labels = [label for name in optimizers for label in _labels(experiment, name, budget)]
    if budget.protocol == "tuned":
        how |= {"tune": budget.tune, "ranges": experiment.searched()}
        _plan(task, labels, budget, how)
    else:
        every = [label for name in experiment.words for label in _labels(experiment, name, budget, grid=True)]
        ended = _ended(_plan(task, every, budget, how), Store(root))
        labels = [label for label in every if label in ended or label in labels]
    # what was asked for can be done; data may be elsewhere, under Ray, and of several processes the first looks
    if _absent(experiment.name) is None and not torchrun.follows():
        data_check.note(experiment.name, root)
    words = command(
        experiment.name,
        budget.folder,
        out,
        optimizers=optimizers,
        seeds=budget.seeds,
        tune=budget.tune if budget.protocol == "tuned" else None,
        grid=budget.grid,
        device=budget.machine["device"],
        precision=budget.machine["precision"],
        engine=budget.machine["engine"],
    )
    return compare([task], labels, out=root, rerun=words, **how, **budget.machine).failures


def _labels(experiment: Experiment, optimizer: str, budget: Budget, grid: bool | None = None) -> list[str]:
    return experiment.labels(optimizer, budget.protocol, budget.grid if grid is None else grid, budget.weight_decay)


def _plan(task: str, labels: Sequence[str], budget: Budget, how: Mapping[str, Any]) -> Plan:
    """What is to be done, if it can be: whatever is wrong is refused here."""
    engine, device, precision = (budget.machine[key] for key in ("engine", "device", "precision"))
    processes = torchrun.processes()
    machine = {"device": device, "precision": precision, "elsewhere": engine == "ray", "processes": processes}
    return plan([task], labels, search="random", **how, **machine)


def _ended(planned: Plan, store: Store) -> set[str]:
    """Those whose runs are all there: a report does not forget what was run before.

    There means made by the same code with as many seeds, as a comparison's table has to be; claims.md is made of
    everything that is stored.
    """
    (task,) = planned.tasks
    found = set()
    for entry in planned.entries:
        specs = planned.finals(task, entry, Choice(middle(entry.ranges), [], 0))
        if all(_has_ended(store.run(spec)) for spec in specs):
            found.add(entry.label)
    return found


def _has_ended(run: Run) -> bool:
    """Whether there is nothing to do: a run that failed would be tried again, and nobody has asked for it."""
    try:
        return (run.end() or {}).get("status") in ("finished", "diverged")
    except CorruptError:
        return False


def _tell(made: Reproduction, out: Path) -> None:
    """Figures and page of everything that is stored."""
    stored = {folder: {name: read(out, folder, one) for name, one in EXPERIMENTS.items()} for folder in folders(out)}
    out.mkdir(parents=True, exist_ok=True)
    for experiments in stored.values():
        made.figures += figures(list(experiments.values()), out / "figures")
    absent = [name for name in EXPERIMENTS if _absent(name) is not None]
    replace_file(made.page, page(stored, absent, made.figures, out).encode())
    say(console(), f"Claims: {made.page}")


def _comparisons(asked: Sequence[str], optimizers: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """Experiments, and who takes part; growth needs nothing where its runs are part of another."""
    chosen = list(EXPERIMENTS) if ALL in asked else [name for name in EXPERIMENTS if name in asked]
    found: list[tuple[str, Sequence[str]]] = [(name, optimizers) for name in chosen]
    if "growth" in asked or ALL in asked:
        found += [(name, _own(optimizers)) for name in GROWTH if name not in chosen]
    return found


def _own(optimizers: Sequence[str]) -> list[str]:
    return [label for label in optimizers if label.partition(":")[0] == "adam-plus"]


def _absent(name: str) -> str | None:
    try:
        SETS[name].locate(data_root())
    except InputError as error:
        return str(error)
    return None


def _check(
    asked: Sequence[str], optimizers: Sequence[str], protocol: str, grid: bool, weight_decay: float, tune: int
) -> None:
    for name in asked:
        if name not in names():
            raise InputError(f"unknown experiment {name!r}: {nearest(name, names())}")
    for label in optimizers:
        name = label.partition(":")[0]
        if name not in NAMES:
            raise InputError(f"{name!r} is none of the paper's optimizers: {nearest(name, NAMES)}")
    if not optimizers:
        raise InputError(f"no optimizers to run: there are {', '.join(NAMES)}")
    if "growth" in asked and not _own(optimizers):
        raise InputError("growth is of Adam⁺, and --optimizers has others alone: add adam-plus")
    if protocol not in get_args(Protocol):
        raise InputError(f"unknown protocol {protocol!r}: {nearest(protocol, get_args(Protocol))}")
    if protocol == "tuned" and (grid or weight_decay):
        raise InputError("--grid and --weight-decay are of --protocol paper: the tuned one searches by itself")
    if tune < (1 if protocol == "tuned" else 0):
        raise InputError(f"{tune} trials are no search: pass --tune 1 or more")
    if not 0 <= weight_decay < math.inf:
        raise InputError(f"a weight decay of {weight_decay:g} is none: pass 0 or more")


@contextmanager
def _data(folder: Path | None) -> Iterator[None]:
    """Let tasks find their data there, in the processes that are started meanwhile, too."""
    before = os.environ.get(VARIABLE)
    if folder is not None:
        os.environ[VARIABLE] = str(folder.expanduser().resolve())
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before
