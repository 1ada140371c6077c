"""What an optimizer keeps, and the most that its steps hold at once."""

import os
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch.optim import Optimizer


def state_bytes(optimizers: Sequence[Optimizer], device: torch.device | None = None) -> int:
    """Bytes of all tensors in the optimizers' state; only of those on `device`, if one is given."""
    tensors = [v for o in optimizers for own in o.state.values() for v in own.values() if isinstance(v, torch.Tensor)]
    return sum(t.nbytes for t in tensors if device is None or t.device.type == device.type)


def peak(function: Callable[[], Any], device: torch.device) -> int:
    """The most bytes that `function` held at once on the device, above what was there before it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        function()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    # The CPU's allocator keeps no peak, but tells the profiler of everything that it hands out and takes back.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # which would print two lines a time into the progress bar
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        function()
    events: Any = profile.profiler.kineto_results.events()  # pyright: ignore[reportOptionalMemberAccess]
    changes = sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns())
    return max(accumulate((e.nbytes() for e in changes), initial=0))
