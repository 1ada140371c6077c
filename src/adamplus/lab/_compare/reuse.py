"""Reuse of runs that are already in the folder, and a record of what made them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from .. import engines, tasks
from .._present import say
from .._store import END, SETTINGS, CorruptError, Spec, Store, certificate
from ..tasks import Task
from .plan import Plan

Maker = tuple[tuple[str, Any], ...]
"""Versions, hardware and commit that made a run, by name."""


class Reuse:
    """Decides which stored runs a comparison reuses, and counts what made them."""

    def __init__(self, store: Store, console: Console, planned: Plan) -> None:
        elsewhere = planned.request.engine == "ray"  # its workers may have other hardware than this machine
        self.store, self.console = store, console
        self.ignored = {"hardware"} if elsewhere else set()
        self.here = self._maker(certificate(torch.device("cpu" if elsewhere else planned.request.device or "cpu")))
        self.others: Counter[Maker] = Counter()

    def other_makers(self) -> list[dict[str, Any]]:
        """Makers of reused runs that differ from this machine and code, each with the number of its runs."""
        return [{"runs": number, **dict(maker)} for maker, number in self.others.items()]

    def select(self, specs: Sequence[Spec]) -> tuple[list[Spec], int]:
        """The runs to train, and the number of reused ones. Reused runs of another maker are reported once."""
        reusable = [self._is_reusable(spec) for spec in specs]
        kept = [self.store.run(spec) for spec, is_reusable in zip(specs, reusable, strict=True) if is_reusable]
        makers = Counter(maker for run in kept if (maker := self._maker(run.settings())) != self.here)
        for maker, number in makers.items():
            if maker not in self.others:
                theirs, ours = _difference(maker, self.here), _difference(self.here, maker)
                say(
                    self.console,
                    f"Reused {number} run{'s' * (number > 1)} made with {theirs}; this is {ours}: "
                    "remove them, or pass another --out, to train them again",
                )
        self.others += makers
        return [spec for spec, is_reusable in zip(specs, reusable, strict=True) if not is_reusable], len(kept)

    def record_unbegun(self, spec: Spec, task: Task, reason: str) -> None:
        """Store a run that failed before it wrote anything, so that tables show it."""
        run = self.store.run(spec)
        if (run.folder / SETTINGS).exists():
            return
        run.begin({"spec": spec.to_json(), "task": tasks.about(task, {}), "parameters": None})
        run.fail(reason)

    def _is_reusable(self, spec: Spec) -> bool:
        """Whether a run has ended without an error. If not, files that would prevent a new attempt are removed."""
        run = self.store.run(spec)
        if not (run.folder / SETTINGS).exists() and set(_names(run.folder)) <= {END}:
            (run.folder / END).unlink(missing_ok=True)  # it failed before it wrote its settings
            return False
        try:
            run.check(spec)
            end, settings = run.end(), run.settings()
        except CorruptError as error:
            say(self.console, engines.set_aside(self.store, run, error))
            return False
        if end is not None and end["status"] == "failed":
            if "versions" not in settings:  # it never began: the next attempt writes its own settings
                (run.folder / SETTINGS).unlink()
            (run.folder / END).unlink()
            return False
        return end is not None

    def _maker(self, settings: Mapping[str, Any]) -> Maker:
        versions, git = settings.get("versions") or {}, settings.get("git") or {}
        found = {name: versions.get(name) for name in ("adamplus", "torch", "python")}
        found |= {"hardware": settings.get("hardware"), "commit": git.get("commit"), "dirty": git.get("dirty")}
        return tuple((name, value) for name, value in found.items() if name not in self.ignored)


def _difference(maker: Maker, other: Maker) -> str:
    """The part of a maker that differs from another one, as text."""
    different = {name: value for (name, value), (_, another) in zip(maker, other, strict=True) if value != another}
    parts = [f"{name} {different[name]}" for name in ("adamplus", "torch", "python", "hardware") if name in different]
    if "commit" in different or "dirty" in different:
        commit = dict(maker)["commit"]
        changed = " with changes" if dict(maker)["dirty"] else ""
        parts.append("no commit" if commit is None else f"commit {commit[:7]}{changed}")
    return ", ".join(parts)


def _names(folder: Path) -> list[str]:
    """The names of a run's files, except for those that were about to replace others."""
    return [path.name for path in folder.iterdir() if path.suffix != ".new"] if folder.exists() else []
