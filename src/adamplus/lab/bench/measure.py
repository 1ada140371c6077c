"""Time and memory of a step, and the bandwidth of a copy."""

import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer

from ..device import room, synchronize

WARM_UP = 3
"""Steps before the first timed one: they make state, compile kernels and fill caches."""
BATCH_MS = 5.0
"""Replays are timed in batches of about this length, beside which an event's resolution of 0.5 µs is negligible."""
COPIED = {"cuda": 1 << 30, "cpu": 1 << 28}
"""Bytes of the buffer that is copied to measure bandwidth: more than caches hold."""

Step = Callable[[], object]


class Times(NamedTuple):
    """Milliseconds of a step over the rounds."""

    median: float
    quartiles: list[float]
    """The first and the third."""


def spread(milliseconds: Sequence[float]) -> Times:
    """Median and quartiles of the rounds' times."""
    first, median, third = statistics.quantiles(milliseconds, n=4, method="inclusive")
    return Times(median, [first, third])


def give_gradients(params: Sequence[nn.Parameter]) -> None:
    """Give parameters new gradients, as zero_grad() and backward() do."""
    for p in params:
        p.grad = None
    for p in params:
        p.grad = torch.full_like(p, 1e-3)


def eager(steps: Mapping[str, Step], params: Sequence[nn.Parameter], rounds: int, tick: Step) -> dict[str, Times]:
    """Time the steps in turn, so that noise of the machine hits all of them alike, and call `tick` after each.

    Each timed step follows an untimed one of the same optimizer, which brings the caches into the same state.
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
    """Time replays of a CUDA graph of the step, on gradients that stay where they are."""
    give_gradients(params)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # capturable=True warns about steps outside of a graph, as in a warm-up
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            step()
    call_time(graph.replay, 1, params[0].device)
    many = max(1, min(1000, round(BATCH_MS / call_time(graph.replay, 1, params[0].device))))
    times = spread([call_time(graph.replay, many, params[0].device) for _ in range(rounds)])
    graph.reset()
    return times


def call_time(function: Step, many: int, device: torch.device) -> float:
    """Milliseconds per call over `many` calls in a row; on CUDA by the device's own clock."""
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


def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second, read and written, of a copy on the device: the best of three medians."""
    source = torch.ones(min(COPIED[device.type], room(device) // 8) // 4, device=device)
    target = torch.zeros_like(source)
    medians = [
        statistics.median(call_time(lambda: target.copy_(source), 2, device) for _ in range(5)) for _ in range(3)
    ]
    return 2 * source.nbytes / (min(medians) / 1e3)


def state_bytes(optimizers: Sequence[Optimizer], device: torch.device | None = None) -> int:
    """Bytes of all tensors in the optimizers' state, or of those on `device`."""
    tensors = [v for o in optimizers for own in o.state.values() for v in own.values() if isinstance(v, torch.Tensor)]
    return sum(t.nbytes for t in tensors if device is None or t.device.type == device.type)


def peak(function: Callable[[], Any], device: torch.device) -> int:
    """The most bytes that `function` held at once on the device, beyond those held before it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        function()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    # The CPU's allocator keeps no peak, but it reports every allocation and release to the profiler.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else two lines per profile are printed into the progress bar
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        function()
    events: Any = profile.profiler.kineto_results.events()  # pyright: ignore[reportOptionalMemberAccess]
    changes = sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns())
    return max(accumulate((e.nbytes() for e in changes), initial=0))
