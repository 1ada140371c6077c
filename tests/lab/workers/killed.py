"""A comparison, killed again and again: python killed.py ENGINE TASK OUT KILLS SHORTEST LONGEST.

Everything is imported before the first of them is forked off, so that kills fall into the comparisons.
"""

import os
import random
import signal
import sys
import time
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from small_comparison import here

from adamplus.lab import comparison
from adamplus.lab.engines import _attempt, local


def compare(engine: str, task: str, out: Path) -> None:
    """In a process group of its own, with a checkpoint after every epoch where it trains by itself."""
    os.setpgid(0, 0)
    if engine == "here":
        local.opened = here
        _attempt.train = partial(_attempt.train, checkpoint_every=0.0)
    comparison.show = lambda root, console: None
    with (out.parent / f"{out.name}.log").open("a") as log, redirect_stdout(log):
        comparison.compare([task], ["adam-plus", "msgd"], seeds=4, tune=4, out=out, workers=2)


def main(engine: str, task: str, out: str, kills: str, shortest: str, longest: str) -> None:
    """Kill that many, at random moments, then let one complete; print how many were killed before they did."""
    moments, killed = random.Random(5), 0
    for last in [False] * int(kills) + [True]:
        if (child := os.fork()) == 0:
            compare(engine, task, Path(out))
            os._exit(0)
        if not last:
            time.sleep(moments.uniform(float(shortest), float(longest)))
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                killed += 1
        else:
            _, status = os.waitpid(child, 0)
            assert status == 0
    print(killed)


if __name__ == "__main__":
    main(*sys.argv[1:])
