"""The answer of a comparison: one or two sentences per task."""

import math

from .._present import listed, plus_minus, strictly_better
from .results import TaskResults
from .rows import ContenderRow


def answer(task: TaskResults, table: list[ContenderRow]) -> str:
    """The leader on a task, as far as its runs can tell; `table` is the task's, best first."""
    measured = [row for row in table if row.score.mean is not None and math.isfinite(row.score.mean)]
    if not measured:
        return _no_answer(task, table)
    best, *others = measured
    score = f"a test {task.metric} of {plus_minus(best.score)} (n = {best.score.n})"
    unmeasured = [row.label for row in table if row not in measured and row.tried > row.diverged]
    end = "." + (f" {listed(unmeasured)} finished without a finite test {task.metric}." if unmeasured else "")
    end += _lost(table) + _lost_trials(task, table)
    if not others:
        return f"{best.label} alone has {'' if unmeasured else 'finished, with '}{score}{end}"
    if best.interval is None:
        return f"{best.label} has the best mean, {score}, but a single run does not show the spread: no rank{end}"
    behind = [row.label for row in others if _behind(best, row)]
    ahead = [row.label for row in others if row.interval is not None and best.every_run_ahead(row)]
    ahead = [label for label in ahead if label not in behind]
    level = [row.label for row in others if row.interval is not None and row.label not in behind + ahead]
    single = [row.label for row in others if row.interval is None]
    if single:
        end = f"; {listed(single)} finished only once and {_have(single)} no rank{end}"
    if not level and not ahead:
        return f"{best.label} leads with {score}{end}" if behind else f"{best.label} has {score}{end}"
    if behind:
        end = f"; {listed(behind)} {'are' if len(behind) > 1 else 'is'} behind{end}"
    few = f"{best.score.n} seeds are too few for an interval to show it"
    if ahead and not level:
        return f"Every run of {best.label} is ahead of every run of {listed(ahead)}, with {score}; {few}{end}"
    if ahead:
        end = f"; every run of {best.label} is ahead of every run of {listed(ahead)}, but {few}{end}"
    if best.lost:
        return (
            f"No clear leader: {best.label} has the best mean, {score}, of the runs that finished, "
            f"but it lost other runs, which count as worse than any that finished{end}"
        )
    return (
        f"No clear leader: {best.label} has the best mean, {score}, and its interval overlaps with "
        f"{'those' if len(level) > 1 else 'that'} of {listed(level)}{end}"
    )


def _have(labels: list[str]) -> str:
    return "have" if len(labels) > 1 else "has"


def _behind(best: ContenderRow, row: ContenderRow) -> bool:
    one, other = best.interval, row.interval
    return one is not None and other is not None and strictly_better(one, other, best.task.higher)


def _no_answer(task: TaskResults, table: list[ContenderRow]) -> str:
    lost = _lost(table)
    if finished := sum(row.tried - row.diverged for row in table):
        runs = f"{finished} final runs" if finished > 1 else "1 final run"
        return f"No answer: {runs} finished, without a finite test {task.metric}.{lost}"
    trials = sum(run.status != "unfinished" for runs in task.trials.values() for run in runs)
    searched = f" {trials} trial{'s' if trials != 1 else ''} of the search ended so far." if trials else ""
    return f"No answer yet: no final run has finished.{searched}{lost}{_lost_trials(task, table)}"


def _lost(table: list[ContenderRow]) -> str:
    """Contenders that lost runs: the means do not contain those."""
    partly, wholly = [], dict[str, list[str]]()
    for row in table:
        how = " or ".join(name for name, count in (("diverged", row.diverged), ("failed", row.failed)) if count)
        if row.lost and row.lost == row.ended:
            wholly.setdefault(how, []).append(row.label)
        elif row.lost:
            partly.append(f"{row.lost} of {row.ended} runs of {row.label} {how}")
    text = listed(partly + [f"every run of {listed(labels)} {how}" for how, labels in wholly.items()])
    return f" {text[0].upper()}{text[1:]}." if text else ""


def _lost_trials(task: TaskResults, table: list[ContenderRow]) -> str:
    """How many trials of the search diverged: an optimizer that loses many has a narrow range of good settings."""
    groups: dict[str, list[str]] = {}
    for row in table:
        ended = [run for run in task.trials.get(row.label, []) if run.status != "unfinished"]
        if diverged := sum(run.status == "diverged" for run in ended):
            groups.setdefault(f"{diverged} of {len(ended)}", []).append(row.label)
    parts = [f"{share}{' each' if len(labels) > 1 else ''} of {listed(labels)}" for share, labels in groups.items()]
    return f" Trials of the search that diverged: {'; '.join(parts)}." if parts else ""


def untuned(labels: list[str]) -> str:
    """A warning about a comparison that searched nothing; empty if all settings were searched or given."""
    if not labels:
        return ""
    have = "have" if len(labels) > 1 else "has"
    return (
        f"Nothing was tuned: {listed(labels)} {have} the middle of the declared range, which may be far from a good "
        "setting. Do not judge optimizers by this table; --tune 5 searches."
    )
