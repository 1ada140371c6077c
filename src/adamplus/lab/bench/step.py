"""`adamplus bench step`: one step of every optimizer on real lists of tensors."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from ..device import choose
from .contestants import CONTESTANTS
from .report import InputError, Report
from .run import run
from .shapes import MODELS, ON_CPU
from .show import show

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def step(
    models: Sequence[str] = (),
    optimizers: Sequence[str] = (),
    *,
    device: str | None = None,
    dtype: str = "float32",
    rounds: int = 30,
    json: Path | None = None,
) -> Report:
    """Measure, print the table, and write the JSON if a file is given.

    Args:
        models: names of `MODELS`; by itself all on CUDA, and the smaller ones on a CPU.
        optimizers: keys of `CONTESTANTS`; by itself all.
        device: "cpu", "cuda" or "cuda:1"; by itself CUDA, where there is one.
        dtype: "float32" or "bfloat16", of parameters and gradients.
        rounds: how many times each step is timed.
        json: the file to write.
    """
    where = choose(device)
    names = known("model", models, MODELS) or (ON_CPU if where.type == "cpu" else tuple(MODELS))
    keys = known("optimizer", optimizers, CONTESTANTS) or tuple(CONTESTANTS)
    if dtype not in DTYPES:
        raise InputError(f"there is no dtype {dtype!r} here; there are {', '.join(DTYPES)}")
    chosen = [word for name in models for word in ("--model", name)]
    chosen += [word for key in optimizers for word in ("--optimizer", key)]
    chosen += ["--dtype", dtype]
    lists = [(name, MODELS[name]()) for name in names]
    report = run("step", lists, [CONTESTANTS[key] for key in keys], where, DTYPES[dtype], rounds, chosen, json)
    show(report)
    return report


def known(what: str, given: Sequence[str], there: Iterable[str]) -> list[str]:
    """The given names, each once, if all of them are there."""
    for name in given:
        if name not in there:
            raise InputError(f"there is no {what} {name!r}; there are {', '.join(there)}")
    return list(dict.fromkeys(given))
