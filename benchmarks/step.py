"""Time of one optimizer step and the state that it keeps, beside torch's optimizers, on this machine.

The rounds of all optimizers are interleaved and medians are compared, so that a noisy machine is noisy to all alike.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import nn

from adamplus import AdamPlus

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "Adam⁺ fused": lambda ps: AdamPlus(ps, fused=True),
    "Adam⁺ foreach": lambda ps: AdamPlus(ps, foreach=True),
    "Adam⁺ plain": lambda ps: AdamPlus(ps, foreach=False),
    "Adam fused": lambda ps: torch.optim.Adam(ps, fused=True),
    "Adam foreach": lambda ps: torch.optim.Adam(ps, foreach=True),
    "Adam for-loop": lambda ps: torch.optim.Adam(ps, foreach=False),
    "momentum SGD foreach": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, foreach=True),
}


def resnet18() -> list[tuple[int, ...]]:
    """The 62 parameter shapes of the CIFAR ResNet18, 11.17 M parameters."""
    shapes: list[tuple[int, ...]] = [(64, 3, 3, 3), (64,), (64,)]
    width = 64
    for stage in (64, 128, 256, 512):
        for block in range(2):
            shapes += [(stage, width, 3, 3), (stage,), (stage,), (stage, stage, 3, 3), (stage,), (stage,)]
            if block == 0 and stage != 64:
                shapes += [(stage, width, 1, 1), (stage,), (stage,)]
            width = stage
    return [*shapes, (10, 512), (10,)]


def gpt(width: int, layers: int, context: int) -> list[tuple[int, ...]]:
    """The parameter shapes of a GPT-2 of 50,257 tokens with tied embeddings."""
    block = [(width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,), (width,), (width,)]
    block += [(4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    return [(50257, width), (context, width), *(block * layers), (width,), (width,)]


MODELS: dict[str, Callable[[], list[tuple[int, ...]]]] = {
    "resnet18": resnet18,
    "many-small": lambda: [(64,)] * 1000,
    "gpt2-124m": lambda: gpt(768, 12, 1024),
    "gpt-1.3b": lambda: gpt(2048, 24, 2048),
}
ON_CPU = ("resnet18", "many-small")


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of everything that the optimizer keeps for its parameters."""
    return sum(v.nbytes for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor))


def measure(shapes: list[tuple[int, ...]], rounds: int, device: str) -> dict[str, tuple[float, int]]:
    """Median milliseconds of a step and bytes of state, by optimizer."""
    built: dict[str, Any] = {}
    params = [nn.Parameter(torch.randn(shape, device=device)) for shape in shapes]
    for name, build in OPTIMIZERS.items():
        if device != "cpu" or name != "Adam⁺ fused":
            built[name] = build(params)
    times: dict[str, list[float]] = {name: [] for name in built}
    for i in track(range(rounds + 2), description="measuring"):
        for name, optimizer in built.items():
            for p in params:  # other ones at every step, as zero_grad() and backward() make them
                p.grad = torch.full_like(p, 1e-3)
            synchronize(device)
            start = time.perf_counter()
            optimizer.step()
            synchronize(device)
            if i >= 2:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: (statistics.median(times[name]), state_bytes(built[name])) for name in built}


def synchronize(device: str) -> None:
    """Wait for the device, if it is one that runs ahead."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def main() -> None:
    """Measure and print one table a model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=[*MODELS, "all"], default="all")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    console = Console()
    everything = ON_CPU if arguments.device == "cpu" else tuple(MODELS)
    for model in everything if arguments.model == "all" else [arguments.model]:
        shapes = MODELS[model]()
        count = sum(torch.Size(shape).numel() for shape in shapes)
        results = measure(shapes, arguments.rounds, arguments.device)
        base = results["Adam fused"][0]
        device = (
            torch.cuda.get_device_name()
            if arguments.device.startswith("cuda")
            else f"{torch.get_num_threads()} threads"
        )
        table = Table(
            title=f"{model}: {len(shapes)} tensors, {count / 1e6:.2f} M float32; torch {torch.__version__}, {device}"
        )
        for column in ("optimizer", "step, ms", "state, bytes a parameter", "time over Adam fused"):
            table.add_column(column, justify="left" if column == "optimizer" else "right")
        for name, (milliseconds, state) in results.items():
            table.add_row(name, f"{milliseconds:.2f}", f"{state / count:.2f}", f"{milliseconds / base:.2f}")
        console.print(table)


if __name__ == "__main__":
    main()
