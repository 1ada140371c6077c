"""A small comparison for tests: a plane through points, and an engine that starts no processes."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adamplus.lab._store.spec import Spec
from adamplus.lab._store.store import Store
from adamplus.lab.engines import EndedRun, Execute
from adamplus.lab.engines.attempt import attempt, ended_run

TASK = '''"""A plane through points."""

import os
import signal
from pathlib import Path

import torch
from torch import nn

from adamplus.lab.tasks import Task


class Plane(Task):
    epochs = 4
    batch = 16

    def data(self):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(96, 4, generator=generator)
        y = x @ torch.tensor([[1.0], [2.0], [-1.0], [0.5]]) + 0.1 * torch.randn(96, 1, generator=generator)
        return {"train": (x[:64], y[:64]), "validation": (x[64:80], y[64:80]), "test": (x[80:], y[80:])}

    def model(self):
        return nn.Linear(4, 1)

    def loss(self, outputs, y):
        return nn.functional.mse_loss(outputs, y)

    def schedule(self, now):
        epoch = now.epoch
        HOOK
        return {}
'''


def write_task(path: Path, hook: str = "pass") -> str:
    """Write the task, with a statement that runs before each epoch. Returns its path."""
    path.write_text(TASK.replace("HOOK", hook))
    return str(path)


@contextmanager
def here(root: Path, workers: int | None = None) -> Iterator[Execute]:
    """An engine that trains one run after another in this process."""

    def execute(specs: Sequence[Spec], done: Callable[[EndedRun], None]) -> None:
        for spec in specs:
            done(ended_run(spec, attempt(spec, root)))

    yield execute


def numbers(root: Path) -> dict[str, list[dict[str, Any]]]:
    """The metrics of a store's runs by folder, without times, and without a `checksum` whose name is damaged."""
    runs = Store(root).runs()
    for run in runs:
        run.check()
    return {
        run.folder.relative_to(root).as_posix(): [
            {k: v for k, v in line.items() if not k.endswith("seconds") and not str(v).startswith("crc32:")}
            for line in run.metrics()
        ]
        for run in runs
    }


def record(root: Path) -> dict[str, Any]:
    """The content of comparison.json."""
    return json.loads((root / "comparison.json").read_text())
