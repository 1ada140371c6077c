"""Runs that comparison.json names and that have no folder."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._store import CorruptError, Run


@dataclass(frozen=True)
class MissingRun:
    """A run that has not begun, or that failed before it wrote its settings."""

    folder: str
    phase: str
    task: str | None
    label: str | None
    """Task and label are None if comparison.json does not determine them."""
    failure: str | None
    """Why the run failed; None if it has not begun."""


def missing_runs(root: Path, comparison: Mapping[str, Any], there: Iterable[str]) -> list[MissingRun]:
    """The missing runs in the comparison's order; `there` are the folders of runs that exist, readable or not."""
    named = list(comparison.get("runs", []))
    owners = _owners(comparison, named)
    known = set(there)
    return [
        MissingRun(folder, _phase(folder), *owner, _failure(root / folder))
        for folder, owner in zip(named, owners, strict=True)
        if folder not in known
    ]


def _phase(folder: str) -> str:
    return "search" if folder.rsplit("/", 1)[-1].startswith("search-") else "final"


def _owners(comparison: Mapping[str, Any], named: list[str]) -> list[tuple[str | None, str | None]]:
    """Task and label of each run: folder names contain no label, but runs are named in the order of the plan."""
    pairs = [(task, label) for task in comparison.get("tasks", []) for label in comparison.get("labels", [])]
    # A damaged file may have any number. More trials than runs cannot match.
    searched, tune = comparison.get("search", {}), min(comparison.get("tune", 0), len(named) + 1)
    trials = [(pair, "search") for pair in pairs if searched.get(pair[1]) for _ in range(tune)]
    finals = [(pair, "final") for pair in pairs for _ in comparison.get("seeds", [])]
    for planned in (trials + finals, trials):
        if [phase for _, phase in planned] == [_phase(folder) for folder in named]:
            return [pair for pair, _ in planned]
    return [(None, None)] * len(named)


def _failure(folder: Path) -> str | None:
    try:
        end = Run(folder).end()
    except CorruptError:
        return None
    return None if end is None or end.get("status") != "failed" else str(end.get("reason") or "no reason is known")
