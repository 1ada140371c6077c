"""Checks of a task before its first run."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..tasks import Split, Task, find

ROWS = 2
"""How many rows of test data are passed through the model."""
NAME = r"\w[\w.-]*"
SEE = "see docs/extending.md"


def found(name: str) -> tuple[Task, str]:
    """The task of that name, or in that file, and its digest. Exceptions of the file or the class become InputError."""
    with _reported(name, "its task cannot be made (without arguments)"):
        return find(name)


def check_attributes(name: str, task: Task, processes: int) -> None:
    """Raise InputError unless the attributes of the class can be used."""
    for attribute in ("epochs", "epochs_per_pass", "batch"):
        value = getattr(task, attribute)
        if not _is_number(value, int) or value < 1:
            raise InputError(f"{name}: {attribute} must be a whole number of at least 1, got {value!r}")
    if task.better not in ("lower", "higher"):
        raise InputError(f"{name}: better must be 'lower' or 'higher', got {task.better!r}")
    if not isinstance(task.metric, str):
        raise InputError(f"{name}: metric must be a name, as 'loss', got {task.metric!r}")
    if task.target is not None and not _is_number(task.target, int, float):
        raise InputError(f"{name}: target must be a number or None, got {task.target!r}")
    if task.clip is not None and not (_is_number(task.clip, int, float) and task.clip > 0):
        raise InputError(f"{name}: clip must be a number above 0 or None, got {task.clip!r}")
    if task.train_rows is not None and not (_is_number(task.train_rows, int) and task.train_rows >= 0):
        raise InputError(f"{name}: train_rows must be a whole number or None, got {task.train_rows!r}")
    rows = task.evaluation_rows
    if rows is not None and not (_is_number(rows, int) and rows >= 1):
        raise InputError(f"{name}: evaluation_rows must be a whole number of at least 1, or None, got {rows!r}")
    if task.batch % processes:
        raise InputError(
            f"{name}: the number of processes must divide the batch of {task.batch} rows, got {processes} processes"
        )


def check_content(name: str, task: Task, tuned: bool) -> None:
    """Raise InputError unless the data is complete and a few rows of it pass through model, loss and metrics."""
    with _reported(name, "data() raised"):
        data = task.data()
    _check_data(name, data, ("train", "validation", "test") if tuned else ("train", "test"))
    if len(data["train"][0]) < task.epochs_per_pass:
        raise InputError(
            f"{name}: epochs_per_pass must not exceed the number of training rows, got {task.epochs_per_pass} and "
            f"{len(data['train'][0]):,} rows"
        )
    x, y = (part[: min(ROWS, task.batch)] for part in data["test"])
    # The caller's random numbers stay as they are.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        with _reported(name, "model() raised"):
            model = task.model()
        if not isinstance(model, nn.Module):
            raise InputError(f"{name}: model() must return an nn.Module, got {type(model).__name__}: {SEE}")
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
        raise InputError(f"{name}: metrics() must return a dictionary, got {type(measured).__name__}: {SEE}")
    if "loss" in measured:
        raise InputError(f"{name}: metrics() must not have a 'loss', which loss() returns: give it another name")
    _check_means(name, means | dict(measured))
    with _reported(name, "summary() raised"):
        summary = task.summary({key: float(value) for key, value in (means | dict(measured)).items()})
    _check_summary(name, task, summary)


def _check_data(name: str, data: Any, needed: tuple[str, ...]) -> None:
    if not isinstance(data, Mapping):
        raise InputError(f"{name}: data() must return a dictionary of splits, got {type(data).__name__}: {SEE}")
    if missing := [split for split in needed if split not in data]:
        has = ", ".join(map(repr, data)) or "none"
        why = " (--tune chooses settings by it; --tune 0 chooses none)" if missing == ["validation"] else ""
        raise InputError(f"{name}: data() has no split {' and no '.join(map(repr, missing))}{why}: it has {has}")
    for split, pair in data.items():
        _check_split(f"{name}: the split {split!r}", pair)


def _check_split(what: str, pair: Split) -> None:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(part, Tensor) for part in pair):
        kinds = [type(part).__name__ for part in pair] if isinstance(pair, (tuple, list)) else type(pair).__name__
        raise InputError(f"{what} must be two tensors, inputs and targets, got {kinds}: {SEE}")
    x, y = pair
    if not x.ndim or not y.ndim or len(x) != len(y):
        raise InputError(f"{what} must have as many inputs as targets, got shapes {list(x.shape)} and {list(y.shape)}")
    if not len(x):
        raise InputError(f"{what} has no rows")


def _check_means(name: str, means: Mapping[Any, Any]) -> None:
    for key, value in means.items():
        if not isinstance(value, Tensor) or value.numel() != 1:
            given = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise InputError(f"{name}: {key} must be a tensor of one number, a mean over the batch, got {given}")


def _check_summary(name: str, task: Task, summary: Any) -> None:
    if not isinstance(summary, Mapping):
        raise InputError(f"{name}: summary() must return a dictionary, got {type(summary).__name__}: {SEE}")
    for key, value in summary.items():
        if not isinstance(key, str) or not re.fullmatch(NAME, key) or key.endswith("_hat"):
            raise InputError(
                f"{name}: the metric {key!r} must have a name of letters, digits, '_', '-' and '.', "
                "and without the ending _hat, which is for metrics at ŵ"
            )
        if not _is_number(value, int, float):
            raise InputError(f"{name}: summary() must return numbers, got {key}={value!r}")
    if task.metric not in summary:
        raise InputError(f"{name}: metric must be one of {', '.join(summary)}, got {task.metric!r}: {SEE}")


def _is_number(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


@contextmanager
def _reported(name: str, what: str) -> Iterator[None]:
    """Turn exceptions of a task into InputError."""
    try:
        yield
    except InputError:
        raise
    except SystemExit as error:
        raise InputError(f"{name}: {what}: it called sys.exit({error.code!r})") from error
    except Exception as error:
        raise InputError(f"{name}: {what}: {type(error).__name__}: {error}") from error
