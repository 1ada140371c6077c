"""The paper's schedules, as functions of where a run stands; shorter runs keep their shape."""

import math
from collections.abc import Mapping, Sequence

SCHEDULED = ("sgd", "msgd", "nigt", "adam-plus", "nadam-plus")
"""Those whose rates the paper lowers. Of Adam and AdaGrad it tells the first rate alone, which is kept here."""
SCHEDULE_FREE = ("schedule-free-sgd", "schedule-free-adamw")


def is_scheduled(optimizer: str, paper: bool) -> bool:
    """Whether the rate of that optimizer is lowered: in the paper, some; in a tuned comparison, all that can be."""
    return optimizer in SCHEDULED if paper else optimizer not in SCHEDULE_FREE


def drops(epoch: int, epochs: int) -> int:
    """How many of CIFAR's drops lie behind before an epoch (0, 1, …): at 150/350 and 250/350 of the run."""
    return sum(350 * epoch >= drop * epochs for drop in (150, 250))


def annealings(progress: float) -> int:
    """How often the speech experiments' rate was annealed, after that part of a run: 20 epochs, before each of 10."""
    return max(0, math.floor(20 * progress + 1e-9) - 9)


def saturations(history: Sequence[Mapping[str, float]]) -> int:
    """After how many epochs the loss on validation data was not below all that were before it."""
    best, found = math.inf, 0
    for line in history:
        if line["validation_loss"] < best:
            best = line["validation_loss"]
        else:
            found += 1
    return found
