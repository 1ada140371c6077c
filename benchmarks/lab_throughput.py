"""Seconds an epoch of the lab's loop, beside a bare CUDA graph: ResNet18, 50,000 images, batches of 128, bfloat16.

`PYTHONPATH=src python3 benchmarks/lab_throughput.py [--json FILE]`, where there is a GPU. The bare graph has forward,
backward and step of the same compiled model on one batch that stays where it is: no rows chosen, no augmentation, no
metrics, no evaluation. What the loop takes beyond it is the loop's. `--by-timing` has cuDNN choose its kernels by
timing, which the lab does not: bits would depend on it.
"""

import argparse
import json
import shlex
import statistics
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adamplus.lab import tasks
from adamplus.lab._run.graphs import capture, compile_static
from adamplus.lab._run.learner import Learner
from adamplus.lab._store.spec import Spec

TASK = str(Path(__file__).with_name("cifar_shaped.py"))
EPOCHS = 6


def learner(optimizer: str, by_timing: bool) -> Learner:
    """A learner of the task, compiled and captured."""
    task, digest = tasks.find(TASK)
    spec = Spec(TASK, digest, optimizer, "", optimizer, {"lr": 0.1}, device="cuda", precision="bfloat16")
    made = Learner(task, spec)
    torch.backends.cudnn.benchmark = by_timing
    made.prepare()
    return made


def seconds(made: Learner) -> dict[str, Any]:
    """Of an epoch: its training, and all of it."""
    training, everything = [], []
    for epoch in range(EPOCHS):
        before, begun = made.seconds, time.perf_counter()
        made.epoch(epoch, [])
        torch.cuda.synchronize()
        training.append(made.seconds - before)
        everything.append(time.perf_counter() - begun)
    return {"training": statistics.median(training[1:]), "with_evaluation": statistics.median(everything[1:])}


def bare(made: Learner) -> float:
    """Seconds of as many replays of a bare graph as an epoch has steps."""
    x, y = (t[:128].clone() for t in made.data["train"])
    torch._dynamo.reset()

    def loss_of_the_batch() -> Tensor:
        with made.autocast():
            return made.task.loss(made.model(x), y)

    next_loss = compile_static(loss_of_the_batch)

    def step() -> None:
        loss = next_loss()
        made.optimizer.zero_grad()
        loss.backward()
        made.optimizer.step()

    replay = capture(step, made.model, made.optimizer)
    times: list[float] = []
    for _ in range(3):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(50_000 // 128):
            replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) * (50_000 / 128) / (50_000 // 128))
    return min(times)


def main() -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--optimizers", default="adam-plus,msgd,adam,adagrad")
    parser.add_argument("--by-timing", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = {"optimizers": {}}
    for name in options.optimizers.split(","):
        begun = time.perf_counter()
        made = learner(name, options.by_timing)
        set_up = time.perf_counter() - begun
        found = {"set_up": set_up, **seconds(made)}
        if made.graphed_step:
            found["bare_graph"] = bare(made)
            found["loop_over_bare"] = found["training"] / found["bare_graph"]
        results["optimizers"][name] = found
        print(name, {key: round(value, 3) for key, value in found.items()}, flush=True)
        torch._dynamo.reset()
    results |= {"command": f"PYTHONPATH=src python3 {shlex.join(sys.argv)}", "date": str(date.today())}
    results |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "epochs": EPOCHS}
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
