"""The result table: one row per contender and task."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from .._present import (
    DASH,
    Sensitivity,
    Summary,
    durations,
    number,
    plus_minus,
    ranks,
    sensitivity,
    settings,
    spread,
    summarize,
    with_losses,
)
from .results import Results, StoredRun, TaskResults

HEADINGS: tuple[str, ...] = (
    "rank",
    "optimizer",
    "test metric",
    "n",
    "runs lost",
    "test loss",
    "time to target",
    "steps/s",
    "state, B/param",
    "good lr",
    "settings",
)


@dataclass(frozen=True)
class ContenderRow:
    """One contender on one task."""

    task: TaskResults
    label: str
    rank: tuple[int, int] | None
    score: Summary
    """The task's metric on test data, at w, after the last epoch, over the runs that finished."""
    values: list[float]
    """The same metric of each of these runs."""
    loss: Summary
    reached: Summary
    """Training seconds of the runs that reached the target."""
    tried: int
    """Number of runs that finished or diverged, so that they could reach the target."""
    speed: Summary
    """Training steps per second of the runs that finished."""
    state_per_parameter: float | None
    """Bytes of optimizer state per parameter."""
    peak_bytes: float | None
    sensitivity: Sensitivity | None
    settings: dict[str, Any] | None
    edge: list[str]
    """Settings whose best value is the outermost one tried: better ones may lie beyond."""
    untuned: bool
    """Whether no trial finished, so that the settings are the middles of their ranges."""
    diverged: int
    failed: int
    unfinished: int
    not_begun: int

    @property
    def ended(self) -> int:
        """Number of runs that finished, diverged or failed."""
        return self.tried + self.failed

    @property
    def lost(self) -> int:
        """Number of runs that diverged or failed: they count as worse than any that finished."""
        return self.diverged + self.failed

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval for ranks: the score's, unbounded on the worse side if runs were lost."""
        return with_losses(self.score.interval, self.lost, self.task.higher)

    def every_run_ahead(self, other: "ContenderRow") -> bool:
        """Whether each run of this contender is better than each of another one, which may have lost some of its."""
        own, others = self.values, other.values
        if self.lost or not own or not others or not all(map(math.isfinite, own + others)):
            return False
        return min(own) > max(others) if self.task.higher else max(own) < min(others)


def rows(results: Results, task: TaskResults) -> list[ContenderRow]:
    """One row per contender, the best mean first, contenders without a mean last."""
    found = [_row(results, task, label) for label in results.labels]
    places = ranks({row.label: row.interval for row in found}, task.higher)
    ranked = [replace(row, rank=places.get(row.label)) for row in found]
    return sorted(ranked, key=lambda row: _place(row.score.mean, task.higher))


def _place(mean: float | None, higher: bool) -> tuple[bool, float]:
    known = mean is not None and mean == mean  # nan is no place
    return not known, (-mean if higher else mean) if known and mean is not None else 0.0


def _finished(task: TaskResults, label: str, column: str) -> list[float]:
    return [value for run in task.of(label, "finished") if (value := run.last(column)) is not None]


def _row(results: Results, task: TaskResults, label: str) -> ContenderRow:
    finished = task.of(label, "finished")
    tried = task.of(label, "finished", "diverged")
    missing = [run for run in task.missing if run.label == label and run.phase == "final"]
    values = _finished(task, label, f"test_{task.metric}")
    failed_early = sum(run.failure is not None for run in missing)
    return ContenderRow(
        task=task,
        label=label,
        rank=None,
        score=summarize(values),
        values=values,
        loss=summarize(_finished(task, label, "test_loss")),
        reached=summarize(seconds_to_target(task, run) for run in tried),
        tried=len(tried),
        speed=summarize(run.end.get("steps_per_second") for run in finished),
        state_per_parameter=summarize(state_per_parameter(run) for run in finished).mean,
        peak_bytes=summarize(run.end.get("peak_bytes") for run in finished).mean,
        sensitivity=learning_rates(results, task, label),
        settings=results.chosen(task, label),
        edge=results.comparison.get("edge", {}).get(task.name, {}).get(label, []),
        untuned=_untuned(results, task, label),
        diverged=len(task.of(label, "diverged")),
        failed=len(task.of(label, "failed")) + failed_early,
        unfinished=len(task.of(label, "unfinished")),
        not_begun=len(missing) - failed_early,
    )


def seconds_to_target(task: TaskResults, run: StoredRun) -> float | None:
    """Training seconds until the end of the first epoch whose test metric is at least as good as the target."""
    target = task.about.get("target")
    if target is None:
        return None
    for epoch in run.epochs:
        value = epoch.get(f"test_{task.metric}")
        if value is not None and (value >= target if task.higher else value <= target):
            return epoch.get("seconds")
    return None


def state_per_parameter(run: StoredRun) -> float | None:
    """Bytes of optimizer state per trained number."""
    held, parameters = run.end.get("state_bytes"), run.settings.get("parameters")
    return held / parameters if held is not None and parameters else None


def learning_rates(results: Results, task: TaskResults, label: str) -> Sensitivity | None:
    """Sensitivity to the learning rate, from the trials of the search."""
    ended = [run for run in task.trials.get(label, []) if run.status != "unfinished"]
    pairs = [
        (float(run.spec["settings"]["lr"]), run.last(f"validation_{task.metric}") if run.status == "finished" else None)
        for run in ended
        if isinstance(run.spec["settings"].get("lr"), (int, float))
    ]
    return sensitivity(pairs, task.higher, _bounds(str(results.ranges(label).get("lr", ""))))


def _bounds(declared: str) -> tuple[float, float] | None:
    """The ends of a range declared as `log-uniform, 0.01 to 10`; None if it is none."""
    found = re.search(r"(\d\S*) to (\d\S*)", declared)
    try:
        low, high = (float(found[1]), float(found[2])) if found else (0.0, 0.0)
    except ValueError:
        return None
    return (low, high) if 0 < low <= high < math.inf else None


def _untuned(results: Results, task: TaskResults, label: str) -> bool:
    """Whether settings were chosen after a search in which no trial has a metric."""
    trials = task.trials.get(label, [])
    searched = trials or any(run.label == label and run.phase == "search" for run in task.missing)
    values = [run.last(f"validation_{task.metric}") for run in trials if run.status == "finished"]
    return (
        bool(searched)
        and results.chosen(task, label) is not None
        and all(value is None or math.isnan(value) for value in values)
    )


def cells(row: ContenderRow) -> list[str]:
    """The cells of a row, in the order of `HEADINGS`."""
    return [
        rank_text(row.rank),
        row.label,
        plus_minus(row.score),
        str(row.score.n),
        lost_text(row),
        plus_minus(row.loss),
        _target_text(row),
        spread(row.speed),
        number(row.state_per_parameter, 3),
        _lr_text(row),
        settings(row.settings),
    ]


def rank_text(rank: tuple[int, int] | None) -> str:
    """A place, or a range of places."""
    if rank is None:
        return DASH
    return str(rank[0]) if rank[0] == rank[1] else f"{rank[0]}–{rank[1]}"


def _target_text(row: ContenderRow) -> str:
    if row.task.about.get("target") is None or not row.tried:
        return DASH
    share = f"{row.reached.n} of {row.tried}"
    if not row.reached.n:
        return share
    return durations(row.reached) if row.reached.n == row.tried else f"{durations(row.reached)} ({share})"


def _lr_text(row: ContenderRow) -> str:
    found = row.sensitivity
    if row.untuned:
        return "no trial finished"
    if found is None or found.spacing == 1:  # a single trial without a declared range
        return DASH
    good = f"< ×{_factor(found.spacing, 2)}" if found.factor == 1 else f"×{_factor(found.factor, 3)}"
    return f"{good} of ×{_factor(found.searched, 3)}{', at the edge' if 'lr' in row.edge else ''}"


def _factor(value: float, digits: int) -> str:
    return f"{float(f'{value:.{digits}g}'):,g}"


def lost_text(row: ContenderRow) -> str:
    """Numbers of the runs that are not in the means."""
    counts = {"diverged": row.diverged, "failed": row.failed, "unfinished": row.unfinished}
    counts["not begun"] = row.not_begun
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or DASH


def grid(table: list[ContenderRow]) -> list[list[str]]:
    """Headings and lines of one task's table, with the metric's name and without a second column for the loss."""
    metric = table[0].task.metric
    kept = [i for i, heading in enumerate(HEADINGS) if (heading, metric) != ("test loss", "loss")]
    names = [f"test {metric}" if heading == "test metric" else heading for heading in HEADINGS]
    return [[line[i] for i in kept] for line in (names, *map(cells, table))]
