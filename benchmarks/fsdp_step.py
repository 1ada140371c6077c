"""What DTensors cost a fused step: GPT-2 of 124 M parameters under FSDP2 with one rank, beside the same without FSDP.

`PYTHONPATH=src python3 benchmarks/fsdp_step.py [--json FILE]`, where there is a GPU. Both train in turn, in bfloat16. A
step is timed twice: in training, where the host is ahead of the device and does not wait, by the device's clock; and
with a wait before and after it, host included.
"""

import argparse
import json
import statistics
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from models import GPT
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from adamplus import AdamPlus

WARM_UP, ROUNDS = 5, 200


def built(sharded: bool) -> tuple[nn.Module, AdamPlus]:
    """The model from its seed, and its optimizer."""
    torch.manual_seed(0)
    model: Any = GPT().cuda()
    if sharded:
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
    return model, AdamPlus(model.parameters(), lr=0.01, fused=True)


def backward(model: nn.Module, optimizer: AdamPlus, x: Tensor) -> None:
    """New gradients, as training leaves them."""
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    loss.backward()


def in_training(model: nn.Module, optimizer: AdamPlus, x: Tensor) -> float:
    """Milliseconds between the last gradient and the end of the step, on the device."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    backward(model, optimizer, x)
    begin.record()
    optimizer.step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def with_waits(model: nn.Module, optimizer: AdamPlus, x: Tensor) -> float:
    """Milliseconds of a step that begins when the device has nothing to do, host included."""
    backward(model, optimizer, x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    optimizer.step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def main() -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    models = {"plain": built(sharded=False), "FSDP2": built(sharded=True)}
    x = torch.randint(50257, (16, 1025), device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    results: dict[str, Any] = {}
    for way in (in_training, with_waits):
        taken: dict[str, list[float]] = {name: [] for name in models}
        for i in range(WARM_UP + ROUNDS):
            for name, (model, optimizer) in sorted(models.items(), reverse=i % 2 == 0):  # none is always first
                milliseconds = way(model, optimizer, x)
                if i >= WARM_UP:
                    taken[name].append(milliseconds)
        medians = {name: statistics.median(times) for name, times in taken.items()}
        results[way.__name__] = {
            **medians,
            "quartiles": {name: statistics.quantiles(times, n=4)[::2] for name, times in taken.items()},
            "ratio": medians["FSDP2"] / medians["plain"],
        }
    results |= {"command": "PYTHONPATH=src python3 benchmarks/fsdp_step.py", "date": str(date.today()), "seed": 0}
    results |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rounds": ROUNDS}
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
