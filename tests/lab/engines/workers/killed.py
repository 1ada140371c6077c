"""Run a comparison undisturbed and with ten kills: python killed.py ENGINE TASK FOLDER SEEDS SHORTEST LONGEST.

Everything is imported before the first fork, so that kills hit the comparisons. Workers import torch themselves, so
their comparisons are killed some time after the first epoch. So is every other comparison without workers: a slow
machine would make no progress otherwise. Prints how many were killed before they were complete, and the number of
stored epochs after each kill.
"""

import os
import random
import signal
import sys
import time
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path

from small_comparison import here

from adamplus.lab._compare import comparison
from adamplus.lab.engines import attempt, local


def compare(engine: str, task: str, out: Path, seeds: int) -> None:
    """Run the comparison, with a checkpoint after every epoch if it trains in this process."""
    if engine == "here":
        local.start = here
        attempt.train = partial(attempt.train, checkpoint_every=0.0)
    comparison.show = lambda root, console, alone: None
    with (out.parent / f"{out.name}.log").open("a") as log, redirect_stdout(log):
        comparison.compare([task], ["adam-plus", "msgd"], seeds=seeds, tune=3, out=out, workers=2)


def forked(engine: str, task: str, out: Path, seeds: int) -> int:
    """Start a comparison in a forked process, which leads a new process group; returns its id."""
    if (child := os.fork()) == 0:
        os.setpgid(0, 0)
        compare(engine, task, out, seeds)
        os._exit(0)
    with suppress(PermissionError, ProcessLookupError):
        os.setpgid(child, child)  # as it does itself: the group must exist before it is killed
    return child


def wait_for_training(child: int, out: Path) -> None:
    """Wait until an epoch or the process ends."""
    written = _bytes(out)
    while _bytes(out) <= written and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.02)


def _bytes(out: Path) -> int:
    return sum(path.stat().st_size for path in out.glob("runs/*/*/*/metrics.jsonl"))


def main(engine: str, task: str, folder: str, seeds: str, shortest: str, longest: str) -> None:
    """Complete one comparison. In another folder, kill ten at random moments and complete the last."""
    import torch._dynamo  # imported by the first optimizer of a process
    import torch.utils.tensorboard.writer  # noqa: F401 - imported by the first run

    undisturbed, disturbed = Path(folder, "undisturbed"), Path(folder, "disturbed")
    assert os.waitpid(forked(engine, task, undisturbed, int(seeds)), 0)[1] == 0
    moments, epochs = random.Random(5), []
    for i in range(10):
        child = forked(engine, task, disturbed, int(seeds))
        if engine == "local" or i % 2:
            wait_for_training(child, disturbed)
        time.sleep(moments.uniform(float(shortest), float(longest)))
        if os.waitpid(child, os.WNOHANG) == (0, 0):
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            epochs.append(sum(path.read_bytes().count(b"\n") for path in disturbed.glob("runs/*/*/*/metrics.jsonl")))
    assert os.waitpid(forked(engine, task, disturbed, int(seeds)), 0)[1] == 0
    print(len(epochs), *epochs)


if __name__ == "__main__":
    main(*sys.argv[1:])
