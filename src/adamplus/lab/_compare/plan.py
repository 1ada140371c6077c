"""What a comparison is to do, checked before its first run."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from .. import optimizers, tasks
from .._store import Spec
from ..device import choose
from ..errors import InputError, nearest
from ..optimizers import Contender, LogUniform
from ..tasks import Task
from . import search as _search
from . import task_checks
from .search import Choice, Kind

Precision = Literal["float32", "bfloat16"]
SEARCH_SEED = 0
"""Of all trials; final runs have the seeds 1, 2, …, which nothing was chosen by."""


@dataclass(frozen=True)
class Entry:
    """An optimizer as it was asked for."""

    label: str
    name: str
    digest: str
    contender: Contender
    given: dict[str, Any]
    """Settings that the user fixed: these are not searched."""
    declared: Mapping[str, LogUniform] = field(default_factory=dict)
    """What a comparison searches beside, or in other ranges than, what the contender says."""

    @property
    def ranges(self) -> dict[str, LogUniform]:
        """What is searched."""
        every = {**self.contender.search, **self.declared}
        return {key: values for key, values in every.items() if key not in self.given}

    def settings(self, searched: Mapping[str, Any]) -> dict[str, Any]:
        """What the optimizer is built with."""
        return {**self.contender.settings, **searched, **self.given}


@dataclass(frozen=True)
class Plan:
    """All that decides which runs there are."""

    tasks: dict[str, tuple[Task, str]]
    """By name, with the digest of the file."""
    entries: list[Entry]
    seeds: int
    tune: int
    epochs: int | None
    search: Kind
    device: str
    precision: Precision
    first_batch: int
    probe: bool
    processes: int

    def trials(self, task: str, entry: Entry) -> list[Spec]:
        """The runs that settings are chosen by."""
        if self.tune == 0 or not entry.ranges:
            return []
        # By the task's name: an edited comment must not choose other trials, nor another folder.
        tried = _search.trials(entry.ranges, self.tune, self.search, Path(task).stem)
        return [
            self._spec(task, entry, values, SEARCH_SEED, phase="search", trial=i, trials=self.tune)
            for i, values in enumerate(tried, start=1)
        ]

    def finals(self, task: str, entry: Entry, choice: Choice) -> list[Spec]:
        """The runs that are told of."""
        return [self._spec(task, entry, choice.settings, seed) for seed in range(1, self.seeds + 1)]

    def _spec(self, task: str, entry: Entry, searched: Mapping[str, Any], seed: int, **phase: Any) -> Spec:
        found, digest = self.tasks[task]
        return Spec(
            task=task,
            task_digest=digest,
            optimizer=entry.name,
            optimizer_digest=entry.digest,
            label=entry.label,
            settings=entry.settings(searched),
            seed=seed,
            epochs=self.epochs or found.epochs,
            device=self.device,
            precision=self.precision,
            processes=self.processes,
            first_batch=self.first_batch,
            probe=self.probe,
            **phase,
        )


def plan(
    task_names: Sequence[str],
    labels: Sequence[str],
    *,
    seeds: int,
    tune: int,
    epochs: int | None,
    search: str,
    device: str | None,
    precision: str | None,
    elsewhere: bool,
    ranges: Mapping[str, Mapping[str, LogUniform]] | None = None,
    first_batch: int = 0,
    probe: bool = False,
    processes: int = 1,
) -> Plan:
    """Check everything that can be checked before a run.

    `elsewhere`: this machine need not have the device, nor the data; `processes` train each run together.
    """
    if seeds < 1:
        raise InputError(f"{seeds} seeds are no comparison: pass --seeds 1 or more")
    if tune < 0:
        raise InputError(f"{tune} trials cannot be run: pass --tune 0 (no search) or more")
    if epochs is not None and epochs < 1:
        raise InputError(f"{epochs} epochs train nothing: pass --epochs 1 or more")
    if first_batch < 0:
        raise InputError(f"a first batch of {first_batch} rows: pass --first-batch 0 (none) or more")
    if search not in get_args(Kind):
        raise InputError(f"unknown search {search!r}: {nearest(search, get_args(Kind))}")
    if elsewhere and device not in (None, "cpu", "cuda"):
        raise InputError(f"device {device!r}: Ray decides which machine and which accelerator; pass cpu or cuda")
    if processes > 1 and device not in (None, "cpu", "cuda"):
        raise InputError(f"device {device!r}: each process of torchrun has its own; pass cpu or cuda")
    where = "cuda:0" if elsewhere and device == "cuda" else str(choose(device))
    natural: Precision = "float32" if where == "cpu" else "bfloat16"
    if precision is not None and precision not in get_args(Precision):
        raise InputError(f"unknown precision {precision!r}: {nearest(precision, get_args(Precision))}")
    entries = _entries(labels, ranges or {}, where)
    return Plan(
        tasks=_tasks(task_names, processes, tuned=tune > 0, here=not elsewhere),
        entries=entries,
        seeds=seeds,
        tune=tune,
        epochs=epochs,
        search=search,  # pyright: ignore[reportArgumentType] - one of them, by the check above
        device=where,
        precision=precision or natural,  # pyright: ignore[reportArgumentType]
        first_batch=first_batch,
        probe=probe,
        processes=processes,
    )


def split(text: str) -> list[str]:
    """A list on the command line: cut at commas, but those inside parentheses, as in adam:betas=(0.9,0.99)."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def command(plan: Plan, engine: str, out: Path, beginning: Sequence[str]) -> str:
    """The command that does the same again; others than the local engine give out devices by themselves."""
    options = {
        "--optimizers": ",".join(entry.label for entry in plan.entries),
        "--seeds": plan.seeds,
        "--tune": plan.tune,
        "--epochs": plan.epochs,
        "--search": None if plan.search == "random" else plan.search,
        "--device": plan.device if engine == "local" else plan.device.partition(":")[0],
        "--precision": plan.precision,
        "--first-batch": plan.first_batch or None,
        "--engine": engine if engine == "ray" else None,
        "--out": out,
    }
    words = [str(word) for pair in options.items() if pair[1] is not None for word in pair]
    words += ["--probe"] if plan.probe else []
    return shlex.join([*beginning, "compare", *plan.tasks, *words])


def _tasks(names: Sequence[str], processes: int, *, tuned: bool, here: bool) -> dict[str, tuple[Task, str]]:
    if not names:
        raise InputError(f"no tasks to compare on: there are {', '.join(tasks.TASKS)}, and files of your own")
    _refuse_twice([str(Path(name).resolve()) if name.endswith(".py") else name for name in names], names, "task")
    found = {name: task_checks.found(name) for name in names}
    for name, (task, _) in found.items():
        task_checks.check_attributes(name, task, processes)
    for name, (task, _) in found.items():
        if here:
            task_checks.check_content(name, task, tuned)
    return found


def _entries(labels: Sequence[str], ranges: Mapping[str, Mapping[str, LogUniform]], device: str) -> list[Entry]:
    if not labels:
        raise InputError(f"no optimizers to compare: there are {', '.join(optimizers.CONTENDERS)}")
    entries = []
    for label in labels:
        name, given = optimizers.parse(label)
        contender, digest = optimizers.find(name)
        entries.append(Entry(label, name, digest, contender, given, ranges.get(name, {})))
    _refuse_twice([(entry.name, entry.given) for entry in entries], labels, "optimizer")
    for entry in entries:
        optimizers.try_out(entry.contender, entry.given, entry.label, device)
    return entries


def _refuse_twice(keys: Sequence[Any], names: Sequence[str], what: str) -> None:
    for i, key in enumerate(keys):
        if key in keys[:i]:
            raise InputError(f"the {what} {names[i]} is asked for twice, as {names[keys.index(key)]}: leave one out")
