"""16-bit parameters, the dtype of z, and the norm's accuracy."""

import copy
import itertools
from typing import Any

import pytest
import torch
from cases import EXECUTIONS, difference, give, pair, through_a_file, values
from torch import nn

from adamplus import AdamPlus, AdamPlusReference
from adamplus.optim._algorithm import Part
from adamplus.optim._execution import foreach as _foreach
from adamplus.optim._execution.plain import tensor_norm

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


REAL = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize(
    ("dtype", "state_dtype"),
    [*itertools.product(REAL, REAL), (torch.complex64, torch.float64), (torch.complex64, torch.float32)],
)
def test_a_chosen_state_dtype_survives_loading(dtype: torch.dtype, state_dtype: torch.dtype):
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
    optimizer = AdamPlus([p], lr=0.1, state_dtype=state_dtype, **EXECUTIONS[execution])
    reference = AdamPlusReference([q], lr=0.1)
    for _ in range(30):
        g = (q.detach() + torch.randn(2000)).to(dtype)
        p.grad, q.grad = g, g.double()
        optimizer.step()
        reference.step()
    optimizer.eval()
    reference.eval()
    assert torch.linalg.vector_norm(p.double() - q) <= 10 * torch.finfo(dtype).eps * torch.linalg.vector_norm(q)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_z_wider_than_its_parameter_is_used_in_full(execution: str):
    """float32 parameters with z in float64: one rounding of ŵ a half-step, and none of z."""
    p, q = nn.Parameter(torch.randn(500)), nn.Parameter(torch.zeros(500, dtype=torch.float64))
    q.data.copy_(p.data)
    optimizer, reference = (
        AdamPlus([p], lr=0.1, state_dtype=torch.float64, **EXECUTIONS[execution]),
        AdamPlusReference([q], lr=0.1),
    )
    for _ in range(30):
        g = torch.randn(500)
        p.grad, q.grad = g, g.double()
        optimizer.step()
        reference.step()
    torch.testing.assert_close(optimizer.state[p]["z"], reference.state[q]["z"], rtol=1e-13, atol=1e-13)
    assert torch.linalg.vector_norm(p.double() - q) <= 5 * torch.finfo(torch.float32).eps * torch.linalg.vector_norm(q)


@pytest.mark.parametrize("eps", [1e-45, 1e-38, 5e-324, 0.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_zero_gradients_are_no_nan_however_small_eps_is(dtype: torch.dtype, eps: float):
    p = nn.Parameter(torch.ones(3, dtype=dtype))
    optimizer = AdamPlus([p], lr=10.0, eps=eps)
    for _ in range(2):
        p.grad = torch.zeros_like(p)
        optimizer.step()
        optimizer.eval().train()
    assert torch.equal(p, torch.ones_like(p))


def test_a_parts_size_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    results = []
    for size in (1 << 25, 4):
        monkeypatch.setattr(_foreach, "CPU_PART", size)
        torch.manual_seed(0)
        ps = [nn.Parameter(torch.randn(5)) for _ in range(6)]
        optimizer = AdamPlus(ps, weight_decay=0.1, foreach=True)
        for p in ps:
            p.grad = torch.randn(5)
        parts = _foreach.FOREACH.parts(
            Part(list(ps), list(ps), list(ps), list(ps), list(ps), list(range(6)), _foreach.FOREACH)
        )
        assert len(parts) == (1 if size > 30 else 6)
        optimizer.step()
        results.append(torch.stack([p.detach() for p in ps]))
    assert torch.equal(*results)


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


@pytest.mark.parametrize("magnitude", [1e-30, 1e25])
@pytest.mark.parametrize("execution", [*EXECUTIONS.values(), {"fused": True}], ids=[*EXECUTIONS, "fused"])
def test_squares_beyond_float32_do_not_lose_the_norm(execution: dict[str, Any], magnitude: float):
    """z² is 1e-60 or 1e50 here; η comes from the norm, so a wrong one shows in every parameter."""
    p, q = nn.Parameter(torch.zeros(9000)), nn.Parameter(torch.zeros(3))
    optimizer, reference = pair("nigt", [{"params": [p, q], "eps": 0.0}], execution)
    for _ in range(3):
        grads = [magnitude * torch.randn(9000), magnitude * torch.randn(3)]
        for o in (optimizer, reference):
            give(o, grads)
            o.step()
    assert difference(values(optimizer), values(reference)) <= 1e-6


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
