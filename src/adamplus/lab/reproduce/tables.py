"""Tables of runs on the page of claims: results, origins, and what is missing."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from .._present import duration, listed, markdown_table
from .._present import settings as settings_text
from ..data import SETS
from ..optimizers import parse
from ..report import StoredRun
from .experiments import EXPERIMENTS, NAMES, Experiment, text_of
from .findings import standing
from .stored_runs import PAPER, ContenderRuns, Stored

Everything = Mapping[str, Mapping[str, Stored]]
"""Stored runs by folder and experiment."""


def table(lines: Sequence[Sequence[str]]) -> str:
    """Markdown table; the first line is the head."""
    head, *rest = ([cell.replace("|", "∣") for cell in line] for line in lines)
    return markdown_table(head, rest, left=head)


def results(stored: Everything) -> str:
    """Table of the test metric after the last epoch, with one line for each experiment and budget."""
    lines = [["experiment", "runs", "epochs", "shown", *NAMES.values()]]
    for one in _by_experiment(stored):
        panel = one.experiment.panels["test"]
        lines.append([one.experiment.title, _marked(one), str(one.epochs), panel.title, *_test_results(one)])
    return table(lines) if len(lines) > 1 else "No run has ended yet."


class Shown(NamedTuple):
    """The runs of an experiment that the first table of the page shows; None if there are none."""

    word_for_word: Stored | None
    best_reading: Stored | None
    tuned: Stored | None


def shown(stored: Everything) -> dict[str, Shown]:
    """For each experiment, those of its runs that the first table shows.

    Of several readings or searches, these are the ones with the whole budget, then with the most optimizers, then with
    the best place of Adam⁺.
    """
    found = {}
    for name in EXPERIMENTS:
        own = [experiments[name] for experiments in stored.values() if "adam-plus" in _ranked(experiments[name])]
        found[name] = Shown(
            min((one for one in own if one.folder == PAPER), key=_place_among_most, default=None),
            min((one for one in own if one.request.is_reading), key=_place_among_most, default=None),
            min((one for one in own if one.tuned), key=_place_among_most, default=None),
        )
    return found


def overview(stored: Everything, absent: Collection[str]) -> str:
    """Table with one line for each experiment: the paper's claim, and Adam⁺ among the others by test metric."""
    lines = [["experiment", "test metric", "the paper's claim", "word for word", "best reading", "tuned"]]
    for name, kinds in shown(stored).items():
        experiment = EXPERIMENTS[name]
        none = "needs licensed data" if name in absent and not SETS[name].ways else "not run"
        cells = [none if one is None else _adam_plus(one, one.folder != PAPER) for one in kinds]
        column = experiment.panels["test"].title.removeprefix("test ")
        lines.append([experiment.title, column, experiment.claim or "none, not in the paper", *cells])
    return table(lines)


def places(kinds: Mapping[str, Stored | None]) -> str:
    """The places of Adam⁺ as text, by experiment; empty if it was compared with no other optimizer."""
    texts = []
    for name, one in kinds.items():
        if one is not None and len(ranked := list(_ranked(one))) > 1:
            place = ranked.index("adam-plus") + 1
            ordinal = ("first", "second", "third", "fourth", "fifth", "sixth")[place - 1]
            texts.append(f"{ordinal} of {len(ranked)} ({EXPERIMENTS[name].title})")
    return listed(texts)


def _place_among_most(one: Stored) -> tuple[bool, int, int]:
    """A key by which the whole budget comes first, then the most optimizers, then the best place of Adam⁺."""
    ranked = list(_ranked(one))
    return one.request.shortened, -len(ranked), ranked.index("adam-plus") if "adam-plus" in ranked else len(ranked)


def _adam_plus(one: Stored, named: bool) -> str:
    """The result of Adam⁺, its place, and the best of the others."""
    means = _ranked(one)
    column, others = one.experiment.panels["test"].column, [name for name in means if name != "adam-plus"]
    texts = [f"{_text(one, 'adam-plus', column)}, {_place_of_adam_plus(one)}"]
    texts += [f"{NAMES[others[0]]} {_text(one, others[0], column)}"] if others else []
    return "; ".join(texts) + (f" ({one.folder}, {one.epochs} epochs)" if named else "")


def _text(one: Stored, name: str, column: str) -> str:
    place = standing(one.contenders[name], column)
    return "–" if place is None else place.text()


def _ranked(one: Stored) -> dict[str, float]:
    """Mean test metrics of the optimizers that have one, the best first."""
    column = one.experiment.panels["test"].column
    places = {name: standing(contender, column) for name, contender in one.contenders.items()}
    means = {name: place.mean for name, place in places.items() if place is not None and place.mean is not None}
    return dict(sorted(means.items(), key=lambda item: item[1], reverse=one.experiment.higher))


def readings(stored: Everything) -> str:
    """The same table for readings, with the place of Adam⁺ among those that have ended."""
    lines = [["experiment", "runs", "epochs", "shown", *NAMES.values(), "place of Adam⁺"]]
    for one in _by_experiment(stored):
        panel = one.experiment.panels["test"]
        cells = [one.experiment.title, _marked(one), str(one.epochs), panel.title, *_test_results(one)]
        lines.append([*cells, _place_of_adam_plus(one)])
    return table(lines)


def _test_results(one: Stored) -> list[str]:
    """Results of all optimizers; those with the runs of another folder have a dagger."""
    cells = []
    for optimizer in NAMES:
        contender = one.contenders.get(optimizer)
        place = standing(contender, one.experiment.panels["test"].column) if contender is not None else None
        dagger = "†" if contender is not None and contender.borrowed else ""
        cells.append("–" if place is None else place.text() + dagger)
    return cells


def _place_of_adam_plus(one: Stored) -> str:
    ranked = list(_ranked(one))
    return f"{ranked.index('adam-plus') + 1} of {len(ranked)}" if "adam-plus" in ranked else "–"


def times(stored: Everything) -> str:
    """Table of training time and epoch until the test metric first reaches the experiment's target."""
    lines = [["experiment", "runs", "until", *NAMES.values()]]
    for one in _by_experiment(stored):
        experiment, panel = one.experiment, one.experiment.panels["test"]
        if experiment.target is not None:
            cells = [_time(one.contenders.get(name), panel.column, experiment) for name in NAMES]
            lines.append([experiment.title, _marked(one), f"{panel.title} {experiment.target:g}", *cells])
    return table(lines) if len(lines) > 1 else ""


def remarks(stored: Everything) -> str:
    """Remarks by the authors of the runs."""
    found = [(one, remark) for one in _by_experiment(stored) if (remark := _remark(one))]
    return "\n\n".join(f"\\* *{one.folder}*, {one.experiment.title}: {remark}" for one, remark in found)


def _remark(one: Stored) -> str:
    data = f"The data is {one.data}, so nothing here is an answer to the paper." if one.unofficial else ""
    return " ".join(filter(None, (data, one.remark)))


def _marked(one: Stored) -> str:
    """Name of the folder, with a star if there is a remark on its runs."""
    return one.folder + r"\*" * bool(_remark(one))


def _time(one: ContenderRuns | None, column: str, experiment: Experiment) -> str:
    runs = one.ended("finished") if one is not None else []
    if one is None or experiment.target is None or not runs:
        return "–"
    found = one.reached(column, experiment.target, experiment.higher)
    if not found:
        return "not reached"
    took, epoch = (sum(line[key] for line in found) / len(found) for key in ("seconds", "epoch"))
    lost = "" if len(found) == len(runs) else f" ({len(found)} of {len(runs)} runs)"
    return f"{f'{duration(took)}, ' if one.timed else ''}epoch {epoch:.0f}{lost}"


def groups(stored: Everything, out: Path) -> str:
    """List of the origins of the numbers, with one line for each experiment, protocol and budget."""
    lines = []
    for one in _groups(stored):
        every = [each for best in one.own.values() for each in (best, *best.rest)]
        runs = [run for contender in every for run in contender.runs]
        finished = sum(run.status == "finished" for run in runs)
        texts = [f"{finished} of {len(runs)} runs finished", _hardware(runs), _dates(runs), _versions(runs)]
        if one.chosen_after is not None:
            texts.append(f"settings chosen from the paper's grid by validation after {one.chosen_after} epochs")
        texts += [f"data: {one.data}", *(f"`{command}`" for command in _commands(one, out))]
        lines.append(f"- *{one.folder}*, {one.experiment.title}: {'; '.join(texts)}")
    lines += [f"- cannot be read: {folder}/{name}/{run}" for folder, name, run in _unreadable(stored)]
    return "\n".join(lines) or "None yet."


def _commands(stored: Stored, out: Path) -> list[str]:
    """Commands that repeat all stored runs of an experiment: one for each number of trials."""
    runs = [run for one in stored.own.values() for run in one.runs]
    calls: dict[int, list[str]] = {}
    for one in stored.own.values():
        calls.setdefault(one.trials, []).append(one.optimizer)
    request = replace(
        stored.request,
        out=out,
        seeds=max(run.spec["seed"] for run in runs),
        device=str(runs[-1].spec["device"]).partition(":")[0],
        precision=runs[-1].spec["precision"],
    )
    return [
        replace(request, tune=trials).command(
            stored.experiment.name, [label for name in names for label in _requested(stored, name)]
        )
        for trials, names in calls.items()
    ]


def _requested(stored: Stored, name: str) -> list[str]:
    """Values of `--optimizers` that give an optimizer's runs. The paper's own settings are left out."""
    if stored.tuned:
        return [stored.contenders[name].label]
    own = stored.experiment.settings[name].named
    found = []
    for label in stored.labels:
        optimizer, given = parse(label)
        if optimizer == name:
            other = [f"{key}={text_of(value)}" for key, value in given.items() if key in own and value != own[key]]
            found.append(f"{name}:{';'.join(other)}" if other else name)
    return found


def settings(stored: Everything) -> str:
    """Table of the settings of each optimizer. Below the best, which count, are the others."""
    lines = [["runs", "experiment", "optimizer", "settings", "test metric", "seeds", "training time a run"]]
    for one in _groups(stored):
        for optimizer, best in one.own.items():
            of = best.trials if one.tuned else best.tried
            for contender in (best, *best.rest):
                text = settings_text(contender.runs[0].spec["settings"])
                text += f" (best of {of})" if of > 1 and contender is best else ""
                place = standing(contender, one.experiment.panels["test"].column)
                result = "–" if place is None else place._replace(tried=1).text()
                lines.append([_marked(one), one.experiment.name, NAMES[optimizer], text, result, *_cost(contender)])
    return table(lines) if len(lines) > 1 else ""


def _cost(one: ContenderRuns) -> list[str]:
    """Seeds, and the time of training without evaluation and start."""
    finished = one.ended("finished")
    spent = sum(run.end["seconds"] for run in finished)
    took = duration(spent / len(finished)) if finished and one.timed else "–"
    return [", ".join(str(run.spec["seed"]) for run in one.runs), took]


def missing(stored: Everything, absent: Collection[str]) -> str:
    """List of experiments without runs whose data cannot be downloaded."""
    return "\n".join(
        f"- {experiment.title}: the data was not there. {licensed(name)}"
        for name, experiment in EXPERIMENTS.items()
        if name in absent and not SETS[name].ways and not any(one.experiment.name == name for one in _groups(stored))
    )


def licensed(name: str) -> str:
    """The reason why a data set cannot be downloaded."""
    one = SETS[name]
    return f"{one.title} is {one.licence} and cannot be downloaded ({one.home})."


def _groups(stored: Everything) -> Iterator[Stored]:
    return (one for experiments in stored.values() for one in experiments.values() if one.own)


def _by_experiment(stored: Everything) -> list[Stored]:
    found = [one for experiments in stored.values() for one in experiments.values() if one.contenders]
    return sorted(found, key=lambda one: list(EXPERIMENTS).index(one.experiment.name))


def _unreadable(stored: Everything) -> Iterator[tuple[str, str, str]]:
    for folder, experiments in stored.items():
        for name, one in experiments.items():
            yield from ((folder, name, run) for run in one.unreadable)


def _hardware(runs: Sequence[StoredRun]) -> str:
    return listed(sorted({str(run.settings.get("hardware", "unknown hardware")) for run in runs}))


def _dates(runs: Sequence[StoredRun]) -> str:
    days = sorted({str(run.settings.get("started", ""))[:10] for run in runs})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _versions(runs: Sequence[StoredRun]) -> str:
    found = [run.settings.get("versions", {}) for run in runs]
    names = dict.fromkeys(name for versions in found for name in versions)
    texts = [f"{name} {listed(sorted({str(v[name]) for v in found if name in v}))}" for name in names]
    commits = sorted({_commit(run) for run in runs} - {""})
    unknown = sum(not _commit(run) for run in runs)
    texts += [f"commit {listed(commits)}"] if commits else []
    texts += [f"{unknown} of them by an unknown commit"] if commits and unknown else []
    return ", ".join(texts)


def _commit(run: StoredRun) -> str:
    git = run.settings.get("git") or {}
    return f"{git['commit'][:10]}{' with changes' if git.get('dirty') else ''}" if git.get("commit") else ""
