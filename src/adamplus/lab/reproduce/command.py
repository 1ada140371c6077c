"""The command that makes a group of runs, without a path of the machine that has them."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from ..optimizers import parse
from .stored_runs import Stored, options_of

DATA = "DIR"
"""What stands for the folder of all data, wherever somebody has it."""


def command(
    experiment: str,
    folder: str,
    out: Path,
    *,
    optimizers: Sequence[str],
    seeds: int,
    tune: int | None = None,
    grid: bool = False,
    device: str | None = None,
    precision: str | None = None,
    engine: str = "local",
) -> str:
    """`adamplus reproduce …`; `folder` is that of the protocol and the budget, `out` the last part of a full path."""
    words = ["adamplus", "reproduce", experiment, "--data", DATA, "--out", out.name if out.is_absolute() else str(out)]
    words += [*options_of(folder), "--seeds", str(seeds), *([] if tune is None else ["--tune", str(tune)])]
    words += ["--optimizers", ",".join(optimizers), *(["--grid"] if grid else [])]
    words += [
        word
        for option, value in (("--device", device), ("--precision", precision))
        if value
        for word in (option, value)
    ]
    words += ["--engine", engine] if engine != "local" else []
    return shlex.join(words)


def commands_of(stored: Stored, out: Path) -> list[str]:
    """What would make all runs that are stored of an experiment, those of several calls together."""
    runs = [run for one in stored.contestants.values() for run in one.runs]
    calls: dict[int, list[str]] = {}  # by the trials of a search, which one call has the same of for everybody
    for one in stored.contestants.values():
        calls.setdefault(one.trials, []).append(one.optimizer)
    return [
        command(
            stored.experiment.name,
            stored.folder,
            out,
            optimizers=[label for name in names for label in _labels(stored, name)],
            seeds=max(run.spec["seed"] for run in runs),
            tune=trials if stored.tuned else None,
            device=str(runs[-1].spec["device"]).partition(":")[0],
            precision=runs[-1].spec["precision"],
        )
        for trials, names in calls.items()
    ]


def _labels(stored: Stored, name: str) -> list[str]:
    """As one asks for them: in the paper's protocol without what is the paper's anyway."""
    if stored.tuned:
        return [stored.contestants[name].label]
    own = stored.experiment.words[name].named
    asked = []
    for label in stored.labels:
        optimizer, given = parse(label)
        if optimizer == name:
            other = {key: value for key, value in given.items() if key in own and value != own[key]}
            said = ";".join(f"{key}={value:g}" for key, value in other.items())
            asked.append(f"{name}:{said}" if said else name)
    return asked
