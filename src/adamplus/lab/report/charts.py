"""Data of the page's charts: means and standard errors as JSON."""

import math
import re
from collections.abc import Iterable
from typing import Any

from .._present import summarize
from .results import Results, StoredRun, TaskResults
from .rows import ContenderRow

AXES = ("epoch", "step", "seconds")
OWN = ("norm_sum", "eta", "norm", "z_error", "g_error", "gradient")
"""Columns that only Adam⁺'s family has."""
SPLIT = re.compile(r"(running|train|validation|test)_(.+)")


def charts(results: Results, tables: list[list[ContenderRow]]) -> dict[str, Any]:
    """All data of the page's script; numbers that are not finite are null."""
    return {
        "labels": [{"name": label, "colour": colour, "dash": dash} for label, (colour, dash) in results.styles.items()],
        "state": [_json(_state(label, tables)) for label in results.labels],
        "tasks": [_task(results, task, table) for task, table in zip(results.tasks, tables, strict=True)],
    }


def _task(results: Results, task: TaskResults, table: list[ContenderRow]) -> dict[str, Any]:
    by_label = {row.label: row for row in table}
    ordered = [by_label[label] for label in results.labels]
    return {
        "title": task.title,
        "metric": task.metric,
        "higher": task.higher,
        "target": _json(task.about.get("target")),
        "curves": [curves(task.finals.get(label, [])) for label in results.labels],
        "trials": [
            [[_json(lr), _json(value)] for lr, value in row.sensitivity.points] if row.sensitivity else []
            for row in ordered
        ],
        "speed": [[_json(row.speed.mean), _json(row.speed.error)] for row in ordered],
    }


def _state(label: str, tables: list[list[ContenderRow]]) -> float | None:
    """Bytes of optimizer state per parameter, mean over the tasks: they differ by a few scalars."""
    return summarize(row.state_per_parameter for table in tables for row in table if row.label == label).mean


def curves(runs: list[StoredRun]) -> dict[str, Any]:
    """Mean, standard error and number of runs of every column after each epoch, over the runs that reached it."""
    longest = max((len(run.epochs) for run in runs), default=0)
    there = [[run.epochs[i] for run in runs if i < len(run.epochs)] for i in range(longest)]
    known = {column for epochs in there for epoch in epochs for column in epoch}
    columns = sorted(column for column in known if SPLIT.fullmatch(column) or column in OWN)
    return {axis: [_json(summarize(_numbers(epochs, axis)).mean) for epochs in there] for axis in AXES} | {
        "columns": {column: _column(there, column) for column in columns}
    }


def _column(there: list[list[dict[str, Any]]], column: str) -> dict[str, list[float | int | None]]:
    found = [summarize(_numbers(epochs, column)) for epochs in there]
    return {
        "mean": [_json(summary.mean) for summary in found],
        "error": [_json(summary.error) for summary in found],
        "n": [summary.n for summary in found],
    }


def _numbers(epochs: list[dict[str, Any]], column: str) -> Iterable[float]:
    """The finite numbers of a column: the last epoch of a diverged run is no point of a curve."""
    values = (epoch.get(column) for epoch in epochs)
    return [value for value in values if isinstance(value, (int, float)) and math.isfinite(value)]


def _json(value: float | None) -> float | None:
    """The value with six digits, which are enough for a chart and halve the page's data; None if it is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
