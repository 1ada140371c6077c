"""The command that makes a group of runs, without a path of the machine that has them."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from ._stored import Stored, options_of

DATA = "DIR"
"""What stands for the folder of all data, wherever somebody has it."""


def command(
    experiment: str,
    folder: str,
    out: Path,
    *,
    optimizers: Sequence[str],
    seeds: int,
    tune: int = 0,
    grid: bool = False,
    device: str | None = None,
    precision: str | None = None,
    engine: str = "local",
) -> str:
    """`adamplus reproduce …`; `folder` is that of the protocol and the budget, `out` the last part of a full path."""
    words = ["adamplus", "reproduce", experiment, "--data", DATA, "--out", out.name if out.is_absolute() else str(out)]
    words += [*options_of(folder), "--seeds", str(seeds), *(["--tune", str(tune)] if tune else [])]
    words += ["--optimizers", ",".join(optimizers), *(["--grid"] if grid else [])]
    words += [
        word
        for option, value in (("--device", device), ("--precision", precision))
        if value
        for word in (option, value)
    ]
    words += ["--engine", engine] if engine != "local" else []
    return shlex.join(words)


def command_of(stored: Stored, out: Path) -> str:
    """What would make all runs that are stored of an experiment, those of several calls together."""
    runs = [run for one in stored.contestants.values() for run in one.runs]
    return command(
        stored.experiment.name,
        stored.folder,
        out,
        optimizers=[one.label if stored.trials else name for name, one in stored.contestants.items()],
        seeds=max(run.spec["seed"] for run in runs),
        tune=stored.trials,
        grid=any(one.tried > 1 for one in stored.contestants.values()),
        device=str(runs[-1].spec["device"]).partition(":")[0],
        precision=runs[-1].spec["precision"],
    )
