"""What is wrong with a task, told before its first run."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..tasks import Split, Task, find

ROWS = 2
"""That are tried."""
NAME = r"\w[\w.-]*"
SEE = "see docs/extending.md"


def found(name: str) -> tuple[Task, str]:
    """The task of that name, or in that file, and its digest; what its file and its class raise is told."""
    with _reported(name, "its task cannot be made (without arguments)"):
        return find(name)


def check_attributes(name: str, task: Task, processes: int) -> None:
    """Raise InputError unless what the class says of itself can be used."""
    for attribute in ("epochs", "batch"):
        value = getattr(task, attribute)
        if not _is_number(value, int) or value < 1:
            raise InputError(f"{name}: {attribute} is {value!r}, and has to be a whole number of 1 or more")
    if task.better not in ("lower", "higher"):
        raise InputError(f"{name}: better is {task.better!r}, and can be 'lower' or 'higher'")
    if not isinstance(task.metric, str):
        raise InputError(f"{name}: metric is {task.metric!r}, and has to be a name, as 'loss'")
    if task.target is not None and not _is_number(task.target, int, float):
        raise InputError(f"{name}: target is {task.target!r}, and has to be a number or None")
    if task.clip is not None and not (_is_number(task.clip, int, float) and task.clip > 0):
        raise InputError(f"{name}: clip is {task.clip!r}, and has to be a number above 0 or None")
    if task.train_rows is not None and not (_is_number(task.train_rows, int) and task.train_rows >= 0):
        raise InputError(f"{name}: train_rows is {task.train_rows!r}, and has to be a whole number or None")
    rows = task.evaluation_rows
    if rows is not None and not (_is_number(rows, int) and rows >= 1):
        raise InputError(f"{name}: evaluation_rows is {rows!r}, and has to be a whole number of 1 or more, or None")
    if task.batch % processes:
        raise InputError(
            f"{name}: {processes} processes cannot share batches of {task.batch} rows: start a number that divides them"
        )


def check_content(name: str, task: Task, tuned: bool) -> None:
    """Raise InputError unless the data is whole and a few rows of it pass through model, loss and metrics."""
    with _reported(name, "data() raised"):
        data = task.data()
    _check_data(name, data, ("train", "validation", "test") if tuned else ("train", "test"))
    x, y = (part[: min(ROWS, task.batch)] for part in data["test"])
    # Whoever asks keeps their random numbers.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        with _reported(name, "model() raised"):
            model = task.model()
        if not isinstance(model, nn.Module):
            raise InputError(f"{name}: model() gives a {type(model).__name__}, and has to give an nn.Module: {SEE}")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise InputError(f"{name}: the model has no parameters to train")
        model.eval()
        with _reported(name, f"the model cannot take {len(x)} rows of the test data"):
            task.begin(model)
            outputs = model(x)
        with _reported(name, "loss() raised"):
            means = {"loss": task.loss(outputs, y)}
        with _reported(name, "metrics() raised"):
            measured = task.metrics(outputs, y)
    if not isinstance(measured, Mapping):
        raise InputError(f"{name}: metrics() gives a {type(measured).__name__}, and has to give a dictionary: {SEE}")
    if "loss" in measured:
        raise InputError(f"{name}: metrics() has a 'loss', which is what loss() gives: call it something else")
    _check_means(name, means | dict(measured))
    with _reported(name, "summary() raised"):
        kept = task.summary({key: float(value) for key, value in (means | dict(measured)).items()})
    _check_kept(name, task, kept)


def _check_data(name: str, data: Any, needed: tuple[str, ...]) -> None:
    if not isinstance(data, Mapping):
        raise InputError(f"{name}: data() gives a {type(data).__name__}, and has to give a dictionary of splits: {SEE}")
    if missing := [split for split in needed if split not in data]:
        has = ", ".join(map(repr, data)) or "none"
        why = " (which --tune chooses by)" if missing == ["validation"] else ""
        raise InputError(f"{name}: data() has no split {' and no '.join(map(repr, missing))}{why}: it has {has}")
    for split, pair in data.items():
        _check_split(f"{name}: the split {split!r}", pair)


def _check_split(what: str, pair: Split) -> None:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(part, Tensor) for part in pair):
        kinds = [type(part).__name__ for part in pair] if isinstance(pair, (tuple, list)) else type(pair).__name__
        raise InputError(f"{what} is {kinds}, and has to be two tensors, inputs and targets: {SEE}")
    x, y = pair
    if not x.ndim or not y.ndim or len(x) != len(y):
        raise InputError(f"{what} has inputs {list(x.shape)} and targets {list(y.shape)}: a row of each is needed")
    if not len(x):
        raise InputError(f"{what} has no rows")


def _check_means(name: str, means: Mapping[Any, Any]) -> None:
    for key, value in means.items():
        if not isinstance(value, Tensor) or value.numel() != 1:
            given = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise InputError(f"{name}: {key} is {given}, and has to be a tensor of one number, a mean over the batch")


def _check_kept(name: str, task: Task, kept: Any) -> None:
    if not isinstance(kept, Mapping):
        raise InputError(f"{name}: summary() gives a {type(kept).__name__}, and has to give a dictionary: {SEE}")
    for key, value in kept.items():
        if not isinstance(key, str) or not re.fullmatch(NAME, key) or key.endswith("_hat"):
            raise InputError(
                f"{name}: a metric is called {key!r}: names are of letters, digits, '_', '-' and '.', "
                "and do not end in _hat, which says where a metric was measured"
            )
        if not _is_number(value, int, float):
            raise InputError(f"{name}: summary() has {key}={value!r}, which is no number")
    if task.metric not in kept:
        raise InputError(f"{name}: it is judged by {task.metric!r}, and measures {', '.join(kept)}: {SEE}")


def _is_number(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


@contextmanager
def _reported(name: str, what: str) -> Iterator[None]:
    """Tell of what a task raises as of any other bad input."""
    try:
        yield
    except InputError:
        raise
    except SystemExit as error:
        raise InputError(f"{name}: {what}: it called sys.exit({error.code!r})") from error
    except Exception as error:
        raise InputError(f"{name}: {what}: {type(error).__name__}: {error}") from error
