"""The answer to a comparison, in a sentence a task."""

import math

from ._results import TaskResults
from ._statistics import strictly_better
from ._tables import Row
from ._text import listed, plus_minus


def answer(task: TaskResults, table: list[Row]) -> str:
    """Who leads on that task, as far as the runs can tell; `table` is the task's, best first."""
    told = [row for row in table if row.score.mean is not None and math.isfinite(row.score.mean)]
    if not told:
        return _not_yet(task, table)
    best, *others = told
    score = f"a test {task.metric} of {plus_minus(best.score)} (n = {best.score.n})"
    end = f".{_lost(told, table)}"
    if not others:
        return f"{best.label} alone has finished, with {score}{end}"
    if best.score.interval is None:
        return f"{best.label} is ahead with {score}, but a single run tells nothing of the spread: it has no rank{end}"
    behind = [row.label for row in others if _behind(best, row)]
    level = [row.label for row in others if row.score.interval is not None and row.label not in behind]
    single = [row.label for row in others if row.score.interval is None]
    if single:
        end = f"; {listed(single)} ran only once and {_have(single)} no rank{end}"
    if not level:
        return f"{best.label} leads with {score}{end}" if behind else f"{best.label} has {score}{end}"
    if behind:
        end = f"; {listed(behind)} {'are' if len(behind) > 1 else 'is'} behind{end}"
    start = "No one leads" if behind else "No one separates"
    return (
        f"{start}: {best.label} has the best mean, {score}, and its interval overlaps with "
        f"{'those' if len(level) > 1 else 'that'} of {listed(level)}{end}"
    )


def _have(labels: list[str]) -> str:
    return "have" if len(labels) > 1 else "has"


def _behind(best: Row, row: Row) -> bool:
    one, other = best.score.interval, row.score.interval
    return one is not None and other is not None and strictly_better(one, other, best.task.higher)


def _not_yet(task: TaskResults, table: list[Row]) -> str:
    lost = _lost([], table)
    trials = sum(run.status != "unfinished" for runs in task.trials.values() for run in runs)
    searched = f" {trials} trial{'s' if trials != 1 else ''} of the search ended so far." if trials else ""
    return f"No answer yet: no final run has finished.{searched}{lost}"


def _lost(told: list[Row], table: list[Row]) -> str:
    """Means are over the runs that finished: who lost some is said beside them."""
    partly = [row for row in told if row.diverged]
    wholly = [row.label for row in table if row.diverged and not row.score.n]
    said = [f"{row.diverged} of {row.tried} runs of {row.label} diverged" for row in partly]
    said += [f"every run of {listed(wholly)} diverged"] if wholly else []
    text = listed(said)
    return f" {text[0].upper()}{text[1:]}." if text else ""
