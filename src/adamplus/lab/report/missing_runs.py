"""Runs that a comparison names, and its folder does not have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._store import CorruptError, Run


@dataclass(frozen=True)
class MissingRun:
    """A run that has not begun, or that failed before it could say what it was."""

    folder: str
    phase: str
    task: str | None
    label: str | None
    """None where the comparison does not tell whose it is."""
    failure: str | None
    """Why it failed, if it did."""


def missing_runs(root: Path, comparison: Mapping[str, Any], there: Iterable[str]) -> list[MissingRun]:
    """All of them, in the comparison's order; `there` are the folders that have runs, readable or not."""
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
    """Whose the runs are: folders do not have labels in their names, but the order in which they are named tells."""
    pairs = [(task, label) for task in comparison.get("tasks", []) for label in comparison.get("labels", [])]
    searched, tune = comparison.get("search", {}), comparison.get("tune", 0)
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
