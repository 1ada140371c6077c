"""The plan of a comparison: which runs there are, checked before the first of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import optimizers, tasks
from .._store import Spec
from ..device import choose
from ..errors import InputError
from ..optimizers import Contender, LogUniform
from ..tasks import Task
from . import search as _search
from . import task_checks
from .request import Request
from .search import Choice

SEARCH_SEED = 0
"""The seed of all trials. Final runs have the seeds 1, 2, …, by which nothing was chosen."""


@dataclass(frozen=True)
class PlannedContender:
    """A contender with the settings that the user fixed and the ranges that are searched."""

    label: str
    name: str
    digest: str
    contender: Contender
    given: dict[str, Any]
    """Settings that the user fixed. They are not searched."""
    declared: Mapping[str, LogUniform] = field(default_factory=dict)
    """Ranges of this comparison, which add to those of the contender or replace them."""

    @property
    def ranges(self) -> dict[str, LogUniform]:
        """The ranges that are searched, by setting."""
        every = {**self.contender.search, **self.declared}
        return {key: values for key, values in every.items() if key not in self.given}

    def settings(self, searched: Mapping[str, Any]) -> dict[str, Any]:
        """All settings that the optimizer is built with."""
        return {**self.contender.settings, **searched, **self.given}


@dataclass(frozen=True)
class Plan:
    """The runs of a comparison: the request with its device and precision decided, its tasks and its contenders."""

    request: Request
    tasks: dict[str, tuple[Task, str]]
    """Tasks by name, each with the digest of its file."""
    contenders: list[PlannedContender]
    processes: int
    """The number of processes that train each run together."""

    @property
    def untuned(self) -> list[str]:
        """Labels of contenders whose settings would be searched, but for `--tune 0`."""
        return [] if self.request.tune else [each.label for each in self.contenders if each.ranges]

    def trials(self, task: str, contender: PlannedContender) -> list[Spec]:
        """The runs that settings are chosen by."""
        request: Any = self.request  # its search is a Kind, which `check` has made sure of
        if request.tune == 0 or not contender.ranges:
            return []
        # The seed is the task's name, so that an edited comment or another folder does not change the trials.
        tried = _search.trials(contender.ranges, request.tune, request.search, Path(task).stem)
        return [
            self._spec(task, contender, values, SEARCH_SEED, phase="search", trial=i, trials=request.tune)
            for i, values in enumerate(tried, start=1)
        ]

    def finals(self, task: str, contender: PlannedContender, choice: Choice) -> list[Spec]:
        """The runs whose results are reported."""
        return [self._spec(task, contender, choice.settings, seed) for seed in range(1, self.request.seeds + 1)]

    def _spec(
        self, task: str, contender: PlannedContender, searched: Mapping[str, Any], seed: int, **phase: Any
    ) -> Spec:
        found, digest = self.tasks[task]
        request: Any = self.request  # its device and precision are decided
        return Spec(
            task=task,
            task_digest=digest,
            optimizer=contender.name,
            optimizer_digest=contender.digest,
            label=contender.label,
            settings=contender.settings(searched),
            seed=seed,
            epochs=request.epochs or found.epochs,
            device=request.device,
            precision=request.precision,
            processes=self.processes,
            first_batch=request.first_batch,
            probe=request.probe,
            **phase,
        )


def plan(request: Request, processes: int = 1) -> Plan:
    """Check everything that can be checked before a run; `processes` train each run together.

    With Ray, this machine needs neither the device nor the data.
    """
    request.check(processes)
    elsewhere = request.engine == "ray"
    device = "cuda:0" if elsewhere and request.device == "cuda" else str(choose(request.device))
    precision = request.precision or ("float32" if device == "cpu" else "bfloat16")
    contenders = _contenders(request.optimizers, request.ranges or {}, device)
    return Plan(
        replace(request, device=device, precision=precision),
        _tasks(request.tasks, processes, tuned=request.tune > 0, here=not elsewhere),
        contenders,
        processes,
    )


def _tasks(names: Sequence[str], processes: int, *, tuned: bool, here: bool) -> dict[str, tuple[Task, str]]:
    if not names:
        raise InputError(f"no tasks to compare on. Name some of {', '.join(tasks.TASKS)}, or files that end in .py")
    _refuse_twice([str(Path(name).resolve()) if name.endswith(".py") else name for name in names], names, "task")
    found = {name: task_checks.found(name) for name in names}
    for name, (task, _) in found.items():
        task_checks.check_attributes(name, task, processes)
    for name, (task, _) in found.items():
        if here:
            task_checks.check_content(name, task, tuned)
    return found


def _contenders(
    texts: Sequence[str], ranges: Mapping[str, Mapping[str, LogUniform]], device: str
) -> list[PlannedContender]:
    if not texts:
        raise InputError(f"no optimizers to compare. Name some of {', '.join(optimizers.CONTENDERS)}")
    found = []
    for text in texts:
        name, settings = optimizers.parse(text)
        contender, digest = optimizers.find(name)
        given = {key: value for key, value in settings.items() if not isinstance(value, LogUniform)}
        declared = {**ranges.get(name, {}), **{key: own for key, own in settings.items() if key not in given}}
        found.append(PlannedContender(optimizers.label_of(text), name, digest, contender, given, declared))
    _refuse_twice([(each.name, each.given) for each in found], texts, "optimizer")
    for text, each in zip(texts, found, strict=True):
        optimizers.try_out(each.contender, {**each.given, **each.declared}, text, device)
    return found


def _refuse_twice(keys: Sequence[Any], names: Sequence[str], what: str) -> None:
    for i, key in enumerate(keys):
        if key in keys[:i]:
            raise InputError(f"the {what} {names[i]} is given twice, also as {names[keys.index(key)]}: leave one out")
