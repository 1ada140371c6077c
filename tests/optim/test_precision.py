"""16-bit parameters, the dtype of z, and the norm's accuracy."""

import copy

import pytest
import torch
from cases import EXECUTIONS, through_a_file
from torch import nn

from adamplus import AdamPlus, AdamPlusReference
from adamplus.optim._norm import tensor_norm

DEFAULTS = [
    (torch.float64, torch.float64),
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.float32),
    (torch.complex64, torch.complex64),
    (torch.complex128, torch.complex128),
]


def stepped(dtype: torch.dtype, **settings: object) -> tuple[nn.Parameter, AdamPlus]:
    p = nn.Parameter(torch.randn(8).to(dtype))
    optimizer = AdamPlus([p], **settings)  # pyright: ignore[reportArgumentType]
    p.grad = torch.randn(8).to(dtype)
    optimizer.step()
    return p, optimizer


@pytest.mark.parametrize(("dtype", "expected"), DEFAULTS)
def test_z_has_the_parameters_dtype_and_float32_for_16_bits(dtype: torch.dtype, expected: torch.dtype):
    p, optimizer = stepped(dtype)
    assert optimizer.state[p]["z"].dtype == expected
    wide = dtype in (torch.float64, torch.complex128)
    assert optimizer.state[p]["offset"].dtype == (torch.float64 if wide else torch.float32)
    assert optimizer.state[p]["step"].dtype == torch.float32


@pytest.mark.parametrize("state_dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64])
def test_a_chosen_state_dtype_survives_loading(dtype: torch.dtype, state_dtype: torch.dtype):
    if dtype.is_complex and state_dtype.itemsize == 2:
        return  # torch has no complex bfloat16
    p, optimizer = stepped(dtype, state_dtype=state_dtype)
    z = optimizer.state[p]["z"]
    assert z.dtype == (state_dtype.to_complex() if dtype.is_complex else state_dtype)
    q = nn.Parameter(p.detach().clone())
    loaded = AdamPlus([q])
    loaded.load_state_dict(through_a_file(optimizer.state_dict()))
    assert loaded.state[q]["z"].dtype == z.dtype
    assert torch.equal(loaded.state[q]["z"], z)
    assert loaded.state[q]["offset"].dtype == optimizer.state[p]["offset"].dtype
    for w, o in ((p, optimizer), (q, loaded)):
        w.grad = torch.ones_like(w)
        o.step()
    assert torch.equal(p, q)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("state_dtype", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_parameters_stay_beside_the_reference(
    dtype: torch.dtype, state_dtype: torch.dtype | None, execution: str
):
    """30 steps round ŵ twice each, by at most eps/2, and a 16-bit z once more: 60 eps bounds it, and 10 do."""
    start = torch.randn(2000).to(dtype)
    p, q = nn.Parameter(start.clone()), nn.Parameter(start.double())
    optimizer, reference = AdamPlus([p], state_dtype=state_dtype, **EXECUTIONS[execution]), AdamPlusReference([q])
    for _ in range(30):
        g = (q.detach() + torch.randn(2000)).to(dtype)
        p.grad, q.grad = g, g.double()
        optimizer.step()
        reference.step()
    optimizer.eval()
    reference.eval()
    assert torch.linalg.vector_norm(p.double() - q) <= 10 * torch.finfo(dtype).eps * torch.linalg.vector_norm(q)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 5000, 3_000_001])
def test_the_norm_is_exact_to_1e_6_at_any_size(kind: torch.dtype, size: int):
    z = torch.randn(size).to(kind)
    exact = torch.linalg.vector_norm(z.double())
    assert abs(tensor_norm(z) - exact) <= 1e-6 * exact


@pytest.mark.parametrize("layout", ["transposed", "strided", "channels last", "scalar"])
def test_the_norm_takes_any_layout(layout: str):
    z = {
        "transposed": torch.randn(70, 50).t(),
        "strided": torch.randn(100, 60)[::3, ::2],
        "channels last": torch.randn(4, 8, 16, 16).to(memory_format=torch.channels_last),
        "scalar": torch.randn(()),
    }[layout]
    assert float(tensor_norm(z)) == pytest.approx(float(torch.linalg.vector_norm(z.double())), rel=1e-6)


def test_a_16_bit_z_does_not_overflow_the_norm():
    """60,000² is far beyond float16; the sum is float32's."""
    z = torch.full((4096,), 60_000.0, dtype=torch.float16)
    assert float(tensor_norm(z)) == pytest.approx(64 * 60_000, rel=1e-3)


def test_settings_that_float32_would_round_are_not_rounded():
    """lr as a float32 tensor on float64 parameters: its own value, then everything in float64."""
    p = nn.Parameter(torch.ones(3, dtype=torch.float64))
    q = nn.Parameter(torch.ones(3, dtype=torch.float64))
    lr = torch.tensor(0.1)
    optimizer, reference = AdamPlus([p], lr=lr), AdamPlusReference([q], lr=float(lr))
    for _ in range(5):
        p.grad = q.grad = torch.randn(3, dtype=torch.float64)
        optimizer.step()
        reference.step()
    torch.testing.assert_close(p, q, rtol=1e-14, atol=0)


def test_a_16_bit_model_loaded_wider_keeps_its_state():
    p, optimizer = stepped(torch.bfloat16)
    q = nn.Parameter(p.detach().double())
    loaded = AdamPlus([q])
    loaded.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    q.grad = torch.ones_like(q)
    loaded.step()
    assert loaded.state[q]["z"].dtype == torch.float32
    assert loaded.state[q]["offset"].dtype == torch.float64
