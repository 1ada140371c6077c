"""The result table as files that others read: CSV, Markdown, LaTeX."""

import csv
import io
import json
import re
from typing import Any

from .._present import table as markdown_table
from .rows import Row, grid

LEFT = ("optimizer", "settings")
"""Columns of words."""


def to_csv(table: list[Row]) -> str:
    """A line a row, numbers in full; empty where there is none."""
    lines = [_plain(row) for row in table]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _plain(row: Row) -> dict[str, Any]:
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
        "target_seconds": row.target_seconds,
        "target_reached": len(row.reached),
        "target_tried": row.tried,
        "steps_per_second": row.steps_per_second,
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


def to_markdown(table: list[Row]) -> str:
    """A table a task."""
    parts = []
    for group in _by_task(table):
        names, lines = grid(group)
        head, *shown = ([_markdown(cell) for cell in line] for line in (names, *lines))
        text = markdown_table(head, shown, left=LEFT)
        parts.append(f"### {_markdown(group[0].task.title)}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def to_latex(table: list[Row]) -> str:
    """A tabular a task, for booktabs."""
    parts = []
    for group in _by_task(table):
        names, lines = grid(group)
        head, *body = [" & ".join(map(_latex, line)) + r" \\" for line in (names, *lines)]
        columns = "".join("l" if name in LEFT else "r" for name in names)
        title = " ".join(group[0].task.title.split())
        start = [f"% {title}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule"]
        parts.append("\n".join([*start, *body, r"\bottomrule", r"\end{tabular}"]))
    return "\n\n".join(parts) + "\n"


def _by_task(table: list[Row]) -> list[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in table:
        groups.setdefault(row.task.name, []).append(row)
    return list(groups.values())


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(text.split()))


def _latex(text: str) -> str:
    signs = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
    signs |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}  # the default font has others there
    signs |= {"×": r"$\times$", "∞": r"$\infty$", "–": "--", "−": "$-$"} | {sign: f"\\{sign}" for sign in "&%$#_{}"}
    return "".join(signs.get(sign, sign) for sign in " ".join(text.split()))
