"""The text of the page: answers, names, method, result tables, runs."""

import math
from collections.abc import Callable
from typing import Any

from .._present import DASH, MARGIN, Markup, Style, duration, join, listed, number, settings, tag, versions
from .answers import answer
from .descriptions import describe
from .missing_runs import MissingRun
from .results import Results, StoredRun, TaskResults
from .rows import ContenderRow, grid

PICTURE = "runs and 95 % interval"
WIDTH = 120
"""Width of the picture of an interval, in pixels."""
CONTENTS = (
    ("results", "Results"),
    ("curves", "Learning curves"),
    ("own", "Inside Adam⁺"),
    ("rates", "Learning rates"),
    ("costs", "Speed and memory"),
    ("names", "Names"),
    ("method", "Method"),
    ("runs", "All runs"),
    ("rerun", "Run it again"),
)
"""Identifiers and titles of the page's sections. The page's script draws some, and removes those without data."""
DRAWN = ("curves", "own", "rates", "costs")
"""The sections that only the script can show."""


def answers(results: Results, tables: list[list[ContenderRow]]) -> Markup:
    """The answer on each task."""
    items = [
        tag("div", tag("dt", task.title), tag("dd", answer(task, table)))
        for task, table in zip(results.tasks, tables, strict=True)
    ]
    return tag("dl", *items, class_="answers")


def contents(results: Results) -> Markup:
    """The table of contents, with each task's results."""
    items = []
    for key, title in CONTENTS:
        link = tag("a", title, href=f"#{key}")
        if key == "results" and len(results.tasks) > 1:
            tasks = [tag("a", task.title, href=f"#{anchor(i)}") for i, task in enumerate(results.tasks)]
            link = join(link, ": ", join(*(piece for one in tasks for piece in (one, " "))))
        items.append(tag("li", link, hidden="" if key in DRAWN else None, data_section=key))
    return tag("nav", tag("ul", *items), class_="contents", aria_label="Contents")


def anchor(task: int) -> str:
    """The identifier of a task's results."""
    return f"results-{task + 1}"


def names(results: Results) -> Markup:
    """What the optimizers are, and the points w and ŵ."""
    entries = [
        (join(swatch(results.styles[label]), label), describe(_optimizer(results, label)) + ".")
        for label in results.labels
    ]
    runs = [run for task in results.tasks for found in task.finals.values() for run in found]
    if any(name.endswith("_hat") for run in runs for epoch in run.epochs[-1:] for name in epoch):
        entries += [
            (
                join("w"),
                "the weights to deploy. For optimizers with two points, they are an average of the points ŵ. All "
                "results are measured at w, unless they are marked otherwise.",
            ),
            (join("ŵ"), "the other point, at which such an optimizer takes gradients during training."),
        ]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", text)) for name, text in entries), class_="facts names")


def _optimizer(results: Results, label: str) -> str:
    """The registered name or the file of a contender, without its settings."""
    found = (run.spec.get("optimizer") for run in results.runs if run.spec["label"] == label)
    return str(next(filter(None, found), label.partition(":")[0]))


def method(results: Results) -> Markup:
    """What was compared and how: command, tasks, search, seeds, hardware, versions, code and date."""
    comparison = results.comparison
    facts: list[tuple[str, str]] = []
    if comparison.get("command"):
        facts.append(("Command", tag("code", str(comparison["command"]))))
    facts.append(("Tasks", tag("ul", *(tag("li", *_task(task)) for task in results.tasks))))
    facts.append(("Search", _search(results)))
    seeds = comparison.get("seeds") or _seeds(results, "final")
    searched = _seeds(results, "search")
    fresh = ", none of them used in the search" if searched and searched.isdisjoint(seeds) else ""
    if seeds:
        facts.append(("Seeds", f"{', '.join(map(str, sorted(seeds)))}{fresh}"))
    facts.append(("Hardware", listed(_all(results, lambda run: run.settings.get("hardware")))))
    facts.append(("Versions", listed(_all(results, _versions))))
    facts.append(("Code", listed(_all(results, _git))))
    facts.append(("Date", _date(results)))
    shown = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts if value]
    return tag("dl", *shown, class_="facts")


def _counted(results: Results) -> list[StoredRun]:
    return [run for run in results.runs if run.counted]


def _seeds(results: Results, phase: str) -> set[int]:
    return {run.spec["seed"] for run in _counted(results) if run.spec["phase"] == phase}


def _all(results: Results, of: Callable[[StoredRun], Any]) -> list[str]:
    return list(dict.fromkeys(str(found) for run in _counted(results) if (found := of(run))))


def _task(task: TaskResults) -> list[str]:
    about = task.about
    runs = [run for group in (task.finals, task.trials) for found in group.values() for run in found]
    epochs = sorted({run.spec["epochs"] for run in runs})
    parts = about.get("epochs_per_pass", 1)
    facts = [
        f"{' or '.join(map(str, epochs))} epoch{'s' if epochs != [1] else ''}"
        + (f" of 1/{parts} of the training rows" if parts != 1 else "")
        + f", batch size {about.get('batch', '?')}",
        ", ".join(f"{count:,} {split}" for split, count in (about.get("rows") or {}).items()) + " rows",
        f"{runs[0].settings.get('parameters') or 0:,} parameters",
        f"metric {task.metric}, {'higher' if task.higher else 'lower'} is better"
        + (f", target {about['target']:g}" if about.get("target") is not None else ""),
    ]
    return [
        tag("b", task.title),
        f": {about.get('description') or 'no description'} ",
        tag("span", "; ".join(facts) + ".", class_="quiet more"),
    ]


def _search(results: Results) -> str:
    """How settings were chosen, with their declared ranges."""
    comparison = results.comparison
    found = max((len(runs) for task in results.tasks for runs in task.trials.values()), default=0)
    trials = comparison.get("tune", found)
    declared = {label: found for label in results.labels if (found := results.ranges(label))}
    if trials:
        text = (
            f"{trials} trial{'s' if trials != 1 else ''} for each optimizer on each task, "
            "compared on validation data after the last epoch"
        )
    elif "tune" not in comparison:
        return "The folder has no trials. The settings of each run are in the table of runs."
    elif declared or "ranges" not in comparison:
        text = (
            "None. Each setting that a search would have chosen was the middle (the geometric mean) of its declared "
            "range; all others were given or the optimizer’s defaults"
        )
    else:
        return "None: all settings were given or the optimizer’s defaults."
    items = [
        tag("li", tag("b", label), ": ", ", ".join(f"{key} {space}" for key, space in found.items()))
        for label, found in declared.items()
    ]
    return join(text, ":", tag("ul", *items, class_="columns")) if items else f"{text}."


def _versions(run: StoredRun) -> str:
    return versions(run.settings.get("versions") or {})


def _git(run: StoredRun) -> str:
    git = run.settings.get("git") or {}
    if not git.get("commit"):
        return ""
    return f"git {str(git['commit'])[:12]}" + (", with uncommitted changes" if git.get("dirty") else "")


def _date(results: Results) -> str:
    comparison = results.comparison
    date = comparison.get("date") or max(
        (str(run.settings.get("started", ""))[:10] for run in results.runs), default=""
    )
    wall = comparison.get("wall_seconds")
    engine = f", engine {comparison['engine']}" if comparison.get("engine") else ""
    return f"{date}{engine}" + (f", {duration(wall)} in total" if wall else "")


def result_table(results: Results, number: int, table: list[ContenderRow]) -> Markup:
    """The table of the task with this number, with a picture of each contender's runs and interval."""
    names, *lines = grid(table)
    names.insert(3, PICTURE)
    left = {"optimizer", "settings", PICTURE}
    head = tag("tr", *(tag("th", name, scope="col", class_=None if name in left else "number") for name in names))
    picture = _interval_pictures(table)
    body = []
    for row, texts in zip(table, lines, strict=True):
        texts[1] = join(swatch(results.styles[row.label]), row.label)
        texts.insert(3, picture(row))
        parts = [
            tag("th", text, scope="row", title=row.label)
            if name == "optimizer"
            else tag("td", text, class_=None if name in left else "number")
            for name, text in zip(names, texts, strict=True)
        ]
        body.append(tag("tr", *parts))
    title = results.tasks[number].title
    shown = tag("table", tag("thead", head), tag("tbody", *body))
    box = tag("div", shown, class_="scroll", tabindex="0", role="region", aria_label=f"Results on {title}")
    return join(tag("h3", title, id=anchor(number)), box, *(tag("p", text, class_="quiet") for text in _doubts(table)))


def _doubts(table: list[ContenderRow]) -> list[str]:
    """Notes on settings that the search may not have settled."""
    notes = []
    for row in table:
        if row.untuned:
            notes.append(f"{row.label}: no trial finished, so its final runs have the middle of the declared range.")
        elif row.edge:
            values = settings({key: (row.settings or {}).get(key) for key in row.edge})
            notes.append(f"{row.label}: {values} is best and at the edge of what was tried; better may lie beyond.")
    return notes


def _interval_pictures(table: list[ContenderRow]) -> Callable[[ContenderRow], str]:
    """A function that draws a row's runs, mean and interval; the runs set the scale, and wide intervals leave it."""
    values = [value for row in table for value in row.values if math.isfinite(value)]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    pad = 0.08 * (high - low) or abs(high) * 0.01 or 1.0

    def at(value: float) -> float:
        return min(WIDTH - 1.0, max(1.0, WIDTH * (value - low + pad) / (high - low + 2 * pad)))

    def picture(row: ContenderRow) -> str:
        if row.score.mean is None or not math.isfinite(row.score.mean):
            return DASH
        parts = []
        title = f"Runs: {', '.join(number(value) for value in row.values)}"
        if row.interval is not None:
            left, right = row.interval
            title += f". Interval: {number(left)} to {number(right)}"
            parts.append(tag("line", x1=f"{at(left):.1f}", x2=f"{at(right):.1f}", y1="8", y2="8"))
        mean = f"{at(row.score.mean):.1f}"
        parts.append(tag("line", x1=mean, x2=mean, y1="2", y2="14", class_="mean"))
        parts += [tag("circle", cx=f"{at(value):.1f}", cy="8", r="2.7") for value in row.values]
        return tag("svg", tag("title", title), *parts, viewBox=f"0 0 {WIDTH} 16", class_="interval", role="img")

    return picture


def swatch(style: Style) -> Markup:
    """A sample of a contender's line."""
    colour, dash = style
    strokes = {"dash": "6 3", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "10 3", "longdashdot": "10 3 2 3"}
    line = tag("line", x1="0", y1="5", x2="26", y2="5", stroke=colour, stroke_dasharray=strokes.get(dash))
    return tag("svg", line, viewBox="0 0 26 10", class_="swatch", aria_hidden="true")


COLUMNS = (
    ("Test metric and loss", "mean ± standard error over the n final runs that finished, at w, after the last epoch."),
    (PICTURE.capitalize(), "a dot for each run, a tick at their mean, a line for the interval by Student’s t."),
    (
        "Rank",
        "the places that are possible by these intervals: a range if they overlap, and none for single runs. A run "
        "that diverged or failed counts as worse than any that finished: the interval of an optimizer that lost runs "
        "is unbounded on the worse side, so it is ahead of no other.",
    ),
    ("Runs lost", "these are not in the means."),
    (
        "Time to target",
        "training seconds without evaluation, mean ± standard error over the runs that reached the target.",
    ),
    ("Steps/s", "mean ± standard error. If the error is large, something else used the machine."),
    (
        "Good lr",
        "the range of tested learning rates around the best one whose validation metric is within "
        f"{100 * MARGIN:g} % of the best, as a factor, out of the declared range. “< ×3.1”: only the best trial is "
        "within it, and trials are a factor of 3.1 apart on average, so a narrower range cannot be resolved. “At the "
        "edge”: the best trial is the outermost one.",
    ),
)
"""Columns of the result table, and what they mean."""


def notes() -> Markup:
    """The meaning of the table's columns."""
    items = (tag("div", tag("dt", name), tag("dd", text)) for name, text in COLUMNS)
    return tag("details", tag("summary", "What the columns mean"), tag("dl", *items, class_="facts quiet notes"))


def run_table(results: Results) -> Markup:
    """All runs with their settings and how they ended."""
    names = ("task", "optimizer", "phase", "seed", "settings", "result", "epochs", "status", "seconds", "folder")
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    body = [tag("tr", *(tag("td", text) for text in _run(run))) for run in results.runs]
    body += [
        tag("tr", *[tag("td", DASH)] * 7, tag("td", f"unreadable: {reason}"), tag("td", DASH), tag("td", folder))
        for folder, reason in results.unreadable.items()
    ]
    body += [tag("tr", *(tag("td", text) for text in _missing(run))) for run in results.missing]
    table = tag("table", tag("thead", head), tag("tbody", *body), class_="runs")
    summary = tag("summary", f"All {len(body)} runs, with their settings and results")
    box = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="All runs")
    return tag("details", summary, box)


def _run(run: StoredRun) -> list[str]:
    spec = run.spec
    status = run.status + (f": {run.end['reason']}" if run.end.get("reason") else "")
    spent = run.end.get("seconds")
    return [
        spec["task"],
        spec["label"],
        f"trial {spec.get('trial', 0)}" if spec["phase"] == "search" else spec["phase"],
        str(spec["seed"]),
        settings(spec["settings"]),
        _result(run),
        f"{len(run.epochs)} of {spec['epochs']}",
        status if run.counted else f"{status} (from an earlier comparison: not counted)",
        DASH if spent is None else number(spent, 3),
        run.folder,
    ]


def _result(run: StoredRun) -> str:
    """The metric that the run is judged by, after its last epoch: of a trial on validation data."""
    metric = run.settings["task"]["metric"]
    split = "validation" if run.spec["phase"] == "search" else "test"
    value = run.last(f"{split}_{metric}")
    return DASH if value is None else f"{split} {metric} {number(value)}"


def _missing(run: MissingRun) -> list[str]:
    phase = "trial" if run.phase == "search" else run.phase
    status = "not begun" if run.failure is None else f"failed before it began: {run.failure}"
    return [run.task or DASH, run.label or DASH, phase, DASH, DASH, DASH, DASH, status, DASH, run.folder]


def rerun(results: Results) -> Markup:
    """How to run the comparison again."""
    command = results.comparison.get("command")
    if not command:
        return tag(
            "p",
            "The folder has no comparison.json, which would contain the command. Each run’s settings are in the table "
            "above and in its settings.json.",
        )
    return join(
        tag("pre", tag("code", str(command))),
        tag(
            "p",
            "In the same folder, this command keeps finished runs and trains only the missing ones. In a new folder it "
            "trains all of them; with the same versions and hardware, the numbers are the same. To make this page "
            "again, use ",
            tag("code", "adamplus report"),
            " with the folder’s name.",
        ),
    )
