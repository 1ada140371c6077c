"""How long a step takes, eager and captured in a CUDA graph."""

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import nn

from ..device import synchronize

WARM_UP = 3
"""Steps that are not timed: they make state, compile kernels and fill caches."""
BATCH_MS = 5.0
"""Replays are timed in batches of about this length, beside which an event's own resolution of 0.5 µs is nothing."""

Step = Callable[[], object]


class Times(NamedTuple):
    """Milliseconds of a step over the rounds."""

    median: float
    quartiles: list[float]
    """The first and the third."""


def spread(milliseconds: Sequence[float]) -> Times:
    """Median and quartiles of some rounds."""
    first, median, third = statistics.quantiles(milliseconds, n=4, method="inclusive")
    return Times(median, [first, third])


def give_gradients(params: Sequence[nn.Parameter]) -> None:
    """New gradients, as zero_grad() and backward() leave them."""
    for p in params:
        p.grad = None
    for p in params:
        p.grad = torch.full_like(p, 1e-3)


def eager(steps: Mapping[str, Step], params: Sequence[nn.Parameter], rounds: int, tick: Step) -> dict[str, Times]:
    """Time the steps in turn, so that a noisy machine is noisy to all alike; `tick` after each.

    A step that is not timed comes first, or each would find the caches as another had left them.
    """
    device = params[0].device
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(WARM_UP + rounds):
        for name, step in steps.items():
            give_gradients(params)
            step()
            give_gradients(params)
            synchronize(device)
            start = time.perf_counter()
            step()
            synchronize(device)
            if i >= WARM_UP:
                taken[name].append(1e3 * (time.perf_counter() - start))
            tick()
    return {name: spread(milliseconds) for name, milliseconds in taken.items()}


def captured(step: Step, params: Sequence[nn.Parameter], rounds: int) -> Times:
    """Time replays of a graph of the step, on gradients that stay where they are."""
    give_gradients(params)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # capturable=True warns when it steps outside of a graph, as a warm-up must
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            step()
    stretch(graph.replay, 1, params[0].device)
    many = max(1, min(1000, round(BATCH_MS / stretch(graph.replay, 1, params[0].device))))
    times = spread([stretch(graph.replay, many, params[0].device) for _ in range(rounds)])
    graph.reset()
    return times


def stretch(function: Step, many: int, device: torch.device) -> float:
    """Milliseconds a call, over `many` of them in a row; on CUDA by the device's own clock."""
    synchronize(device)
    if device.type == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(many):
            function()
        end.record()
        synchronize(device)
        return begin.elapsed_time(end) / many
    start = time.perf_counter()
    for _ in range(many):
        function()
    return 1e3 * (time.perf_counter() - start) / many
