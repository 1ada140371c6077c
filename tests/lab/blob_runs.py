"""Specifications and learners for short runs of the task in blobs.py."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from adamplus.lab._run.learner import Learner
from adamplus.lab._store.code_digest import digest
from adamplus.lab._store.spec import Spec
from adamplus.lab.models import LanguageModel, forget
from adamplus.lab.optimizers import find as find_optimizer
from adamplus.lab.tasks import Task, find

TASK = str(Path(__file__).with_name("blobs.py"))


def spec(optimizer: str = "adam-plus", task: str = TASK, **changes: Any) -> Spec:
    given = {"settings": {"lr": 0.01}, "seed": 1, "epochs": 4, **changes}
    task_digest = digest(Path(task)) if Path(task).is_file() else "digest"
    return Spec(task, task_digest, optimizer, find_optimizer(optimizer)[1], optimizer, **given)


def learner(optimizer: str = "adam-plus", **changes: Any) -> Learner:
    made = Learner(find(TASK)[0], spec(optimizer, **changes))
    made.prepare()
    return made


def without_times(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if not name.endswith("seconds")} for line in lines]


class Reading(Task):
    """Windows of words, a recurrent model, and gradients that are clipped strongly."""

    batch, ordered, clip, train_rows = 1, True, 1e-3, 0

    def data(self) -> Any:
        words = torch.randint(9, (12, 4, 7), generator=torch.Generator().manual_seed(0))
        return {"train": (words, words), "test": (words[:3], words[:3])}

    def model(self) -> nn.Module:
        return LanguageModel(9, streams=4, width=8, dropout=0.0)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs.flatten(0, -2), y.flatten())

    def begin(self, model: nn.Module) -> None:
        forget(model)
