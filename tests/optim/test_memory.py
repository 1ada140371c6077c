"""What the optimizer keeps and what it allocates."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import EXECUTIONS, FAMILY
from torch import nn

from adamplus import AdamPlus


def allocations(function: Callable[[], Any]) -> list[int]:
    """Sizes in bytes of everything that torch's CPU allocator handed out while `function` ran."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        function()
    events: Any = profile.profiler.kineto_results.events()  # pyright: ignore[reportOptionalMemberAccess]
    return [e.nbytes() for e in events if e.name() == "[memory]" and e.nbytes() > 0]


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("name", FAMILY)
def test_state_is_4_bytes_a_float32_parameter(name: str, execution: str):
    model = nn.Sequential(nn.Linear(300, 200), nn.Linear(200, 10))
    optimizer = FAMILY[name][0](model.parameters(), **EXECUTIONS[execution])
    model(torch.randn(4, 300)).sum().backward()
    optimizer.step()
    tensors = [v for state in optimizer.state.values() for v in state.values()]
    tensors += [v for group in optimizer.param_groups for v in group.values() if isinstance(v, torch.Tensor)]
    count = sum(p.numel() for p in model.parameters())
    assert sum(t.untyped_storage().nbytes() for t in tensors) <= 4 * count + 1024 * len(optimizer.state)


def test_the_measure_sees_allocations():
    """A test that cannot fail is none: the same measure finds a copy."""
    x = torch.randn(1 << 20)
    assert max(allocations(lambda: x + 1)) >= 4 << 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "channels last"])
def test_switching_allocates_no_buffer_as_large_as_a_parameter(dtype: torch.dtype, layout: str):
    p = torch.randn(512, 16, 16, 16).to(dtype)
    if layout == "transposed":
        p = p.transpose(0, 3)
    elif layout == "channels last":
        p = p.to(memory_format=torch.channels_last)
    p = nn.Parameter(p)
    optimizer = AdamPlus([p])
    p.grad = torch.randn_like(p)
    optimizer.step()
    for switch in (optimizer.eval, optimizer.train):
        # pieces of 65,536 elements in float32, and a float32 piece of z beside them
        assert max(allocations(switch), default=0) <= 8 * (1 << 16) < p.numel() * p.element_size()


@pytest.mark.parametrize("execution", ["plain", "foreach"])
def test_a_float32_step_allocates_nothing_as_large_as_a_parameter(execution: str):
    p = nn.Parameter(torch.randn(1 << 20))
    optimizer = AdamPlus([p], **EXECUTIONS[execution])
    p.grad = torch.randn_like(p)
    optimizer.step()
    assert max(allocations(optimizer.step)) <= p.numel() * 4 / 256
