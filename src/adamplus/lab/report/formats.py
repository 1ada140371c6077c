"""The result table as CSV, Markdown and LaTeX."""

import json
from typing import Any

from .._present import csv_table, escape_markdown, latex_table, markdown_table
from .rows import ContenderRow, grid

LEFT = ("optimizer", "settings")
"""Columns of text."""


def to_csv(table: list[ContenderRow]) -> str:
    """All rows as CSV, with all digits; a missing number is an empty cell."""
    lines = [_plain(row) for row in table]
    return csv_table(list(lines[0]), (line.values() for line in lines))


def _plain(row: ContenderRow) -> dict[str, Any]:
    low, high = row.score.interval or (None, None)
    best, worst = row.rank or (None, None)
    trials = row.sensitivity
    return {
        "task": row.task.name,
        "optimizer": row.label,
        "rank_best": best,
        "rank_worst": worst,
        "metric": row.task.metric,
        "better": "higher" if row.task.higher else "lower",
        "n": row.score.n,
        "mean": row.score.mean,
        "standard_error": row.score.error,
        "interval_low": low,
        "interval_high": high,
        "loss_mean": row.loss.mean,
        "loss_standard_error": row.loss.error,
        "target": row.task.about.get("target"),
        "target_seconds": row.reached.mean,
        "target_seconds_standard_error": row.reached.error,
        "target_reached": row.reached.n,
        "target_tried": row.tried,
        "steps_per_second": row.speed.mean,
        "steps_per_second_standard_error": row.speed.error,
        "state_bytes_per_parameter": row.state_per_parameter,
        "peak_bytes": row.peak_bytes,
        "lr_good_low": trials and trials.low,
        "lr_good_high": trials and trials.high,
        "lr_good_factor": trials and trials.factor,
        "lr_searched_factor": trials and trials.searched,
        "lr_trial_spacing": trials and trials.spacing,
        "settings_at_edge": " ".join(row.edge),
        "search_without_result": row.untuned,
        "settings": None if row.settings is None else json.dumps(row.settings),
        "diverged": row.diverged,
        "failed": row.failed,
        "unfinished": row.unfinished,
        "not_begun": row.not_begun,
    }


def to_markdown(table: list[ContenderRow]) -> str:
    """One Markdown table per task."""
    parts = []
    for group in _by_task(table):
        head, *lines = ([escape_markdown(cell) for cell in line] for line in grid(group))
        parts.append(f"### {escape_markdown(group[0].task.title)}\n\n{markdown_table(head, lines, left=LEFT)}")
    return "\n\n".join(parts) + "\n"


def to_latex(table: list[ContenderRow]) -> str:
    """One LaTeX tabular per task, for booktabs."""
    grids = [(group[0].task.title, grid(group)) for group in _by_task(table)]
    return "\n\n".join(latex_table(title, head, lines, LEFT) for title, (head, *lines) in grids) + "\n"


def _by_task(table: list[ContenderRow]) -> list[list[ContenderRow]]:
    groups: dict[str, list[ContenderRow]] = {}
    for row in table:
        groups.setdefault(row.task.name, []).append(row)
    return list(groups.values())
