"""Memory that the optimizer keeps and allocates."""

import pytest
import torch
from cases import EXECUTIONS, FAMILY, allocations
from torch import nn

from adamplus import AdamPlus


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


def test_the_measurement_sees_an_allocation():
    """The measurement of the tests below finds a copy, so those tests can fail."""
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


def test_scalars_on_an_accelerator_share_one_allocation():
    """Separate scalars would take 512 bytes each on a GPU. The meta device is treated as any accelerator is."""
    ps = [nn.Parameter(torch.empty(3, device="meta")) for _ in range(5)]
    optimizer = AdamPlus(ps, capturable=True)
    for p in ps:
        p.grad = torch.empty_like(p)
    optimizer.step()
    for name in ("offset", "step"):
        scalars = [optimizer.state[p][name] for p in ps]
        assert [s.storage_offset() for s in scalars] == [0, 1, 2, 3, 4]
        assert all(s.shape == () for s in scalars)


def test_scalars_given_to_a_compiler_share_no_memory():
    p, q = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))
    optimizer = AdamPlus([p, q])
    p.grad, q.grad = torch.ones(3), torch.ones(2)
    optimizer.step()
    for name in ("offset", "step"):  # as on an accelerator
        states = [optimizer.state[x] for x in (p, q)]
        for state, scalar in zip(states, torch.stack([state[name] for state in states]).unbind(), strict=True):
            state[name] = scalar
    torch.compile(optimizer.step, backend="aot_eager", fullgraph=True)()
    scalars = [optimizer.state[x][name] for x in (p, q) for name in ("offset", "step")]
    assert len({s.untyped_storage().data_ptr() for s in scalars}) == 4
    assert optimizer.stats().step == 2
