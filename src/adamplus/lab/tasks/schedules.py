"""Schedules: the paper's experiments, for which optimizers they apply, and the cosine of the GPT tasks."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from .task import Task

SCHEDULED = ("sgd", "msgd", "nigt", "adam-plus", "nadam-plus")
"""Optimizers whose learning rates the paper lowers. Of Adam and AdaGrad it gives only the first rate, which is kept."""
SCHEDULE_FREE = ("schedule-free-sgd", "schedule-free-adamw")


class Experiment(Task):
    """A task of the paper's experiments.

    Args:
        paper: Whether to follow the paper: no training data is held out for tuning, and Adam's and AdaGrad's learning
            rates stay constant. Otherwise every optimizer follows the schedule, except schedule-free ones.
    """

    paper_description: ClassVar[str]
    """The description of the task with `paper=True`; the class's docstring describes it without."""

    def __init__(self, paper: bool = False) -> None:
        self.paper: bool = paper

    def is_scheduled(self, optimizer: str) -> bool:
        """Whether the schedule applies to an optimizer, given by its registered name or its file."""
        return optimizer in SCHEDULED if self.paper else optimizer not in SCHEDULE_FREE


def drops(epoch: int, epochs: int) -> int:
    """The number of CIFAR's learning rate drops before an epoch (0, 1, …): at 150/350 and at 250/350 of the run."""
    return sum(350 * epoch >= drop * epochs for drop in (150, 250))


def annealings(progress: float) -> int:
    """How often the speech experiments have annealed the rate at a fraction of a run.

    In 20 epochs, they anneal before each of the last 10.
    """
    return max(0, math.floor(20 * progress + 1e-9) - 9)


def saturations(history: Sequence[Mapping[str, float]]) -> int:
    """The number of epochs whose validation loss was not below that of every epoch before."""
    best, found = math.inf, 0
    for line in history:
        if line["validation_loss"] < best:
            best = line["validation_loss"]
        else:
            found += 1
    return found


def warm_up_and_cosine(progress: float, warm_up: float, end: float = 0.0) -> float:
    """The factor of the learning rate at a fraction of a run: a linear warm-up, then half a cosine down to `end`.

    Args:
        progress: the fraction of the run that is done, in [0, 1).
        warm_up: the fraction of the run that the warm-up takes.
        end: the factor at the end of the run.
    """
    if progress < warm_up:
        return max(progress, 0.0005) / warm_up  # a rate of 0 would be a step that changes nothing
    return end + (1 - end) * (1 + math.cos(math.pi * (progress - warm_up) / (1 - warm_up))) / 2
