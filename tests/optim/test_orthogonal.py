"""U Vᵀ by matrix products, beside a float64 SVD."""

import math
import runpy
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from adamplus.optim import _orthogonal
from adamplus.optim._orthogonal import STEPS, computed_dtype, orthogonalize

SCRIPT = Path(__file__).parents[2] / "docs" / "tables" / "polar_express.py"


def with_singular_values(values: Tensor, columns: int, seed: int = 0) -> Tensor:
    """A float64 matrix with these singular values and random singular vectors."""
    generator = torch.Generator().manual_seed(seed)
    rows = len(values)
    u = torch.linalg.qr(torch.randn(rows, rows, generator=generator, dtype=torch.float64))[0]
    v = torch.linalg.qr(torch.randn(columns, rows, generator=generator, dtype=torch.float64))[0]
    return (u * values.double()) @ v.T


def polar(x: Tensor) -> Tensor:
    """U Vᵀ by a float64 SVD."""
    u, _, vh = torch.linalg.svd(x.double(), full_matrices=False)
    return u @ vh


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def test_the_coefficients_are_those_that_the_script_computes():
    script = runpy.run_path(str(SCRIPT))
    for name, recipe in script["TABLES"].items():
        rows, _ = script["polynomials"](*recipe)
        # The script has 50 digits, so its float64 numbers are the same everywhere.
        assert list(STEPS[getattr(torch, name)]) == rows


@pytest.mark.parametrize(
    ("dtype", "lowest", "error"),
    [(torch.bfloat16, 1.2e-3, 0.103), (torch.float32, 6e-4, 1.1e-6), (torch.float64, 1.4e-6, 2e-14)],
)
def test_the_polynomials_map_every_large_enough_value_near_one(dtype: torch.dtype, lowest: float, error: float):
    x = torch.logspace(-12, 0, 100_000, dtype=torch.float64)
    y = x.clone()
    for a, b, c in STEPS[dtype]:
        y = a * y + b * y**3 + c * y**5
    # The errors are those that the script prints, rounded up, plus rounding errors of this evaluation in float64.
    assert (y[x >= lowest] - 1).abs().max() < error
    assert y.max() < 1 + error
    assert y.min() > 0


CASES = [  # dtype, columns, smallest σ/‖x‖, error of σ, error of a row of UᵀY: the table in orthogonalize's docstring
    (torch.bfloat16, 48, 1e-2, 0.12, 0.2),
    (torch.bfloat16, 200, 1e-2, 0.12, 0.2),
    (torch.float32, 48, 6e-4, 5e-6, 1e-4),
    (torch.float32, 96, 6e-4, 5e-6, 1e-4),
    (torch.float32, 200, 6e-4, 1e-4, 1e-3),  # the Gram form
    (torch.float64, 48, 1.4e-6, 1e-13, 2e-9),
    (torch.float64, 200, 1.4e-6, 1e-13, 2e-9),
]


@pytest.mark.parametrize("tall", [False, True], ids=["wide", "tall"])
@pytest.mark.parametrize(("dtype", "columns", "lowest", "error", "row_error"), CASES)
def test_singular_values_become_one_as_documented(
    dtype: torch.dtype, columns: int, lowest: float, error: float, row_error: float, tall: bool
):
    rows = 48
    spectra = [
        torch.linspace(1, 2, rows),
        torch.logspace(0, -3, rows),
        torch.logspace(0, -9, rows),
        1 / torch.arange(1, rows + 1),
        torch.cat([torch.ones(1), torch.full((rows - 1,), 1.05 * lowest)]),  # as far as the claim goes
        torch.cat([torch.ones(rows // 2), torch.zeros(rows // 2)]),
    ]
    for seed, spectrum in enumerate(spectra):
        x = with_singular_values(spectrum, columns, seed)
        x = x if dtype == torch.float64 else x.float()
        y = orthogonalize(x.mT if tall else x, dtype=dtype).double()
        y = y.mT if tall else y
        u, s, vh = torch.linalg.svd(x.double(), full_matrices=False)
        large = s >= lowest * s.norm()
        assert ((u.mT @ y @ vh.mT).diagonal()[large] - 1).abs().max() < error
        assert torch.linalg.svdvals(y).max() < 1 + error
        assert ((u.mT @ y)[large] - vh[large]).norm(dim=1).max() < row_error


def test_rounding_errors_of_zero_singular_values_stay_small_in_float32_and_float64():
    for dtype, bound in ((torch.float32, 1e-3), (torch.float64, 1e-8)):  # about 10³ and 10⁶ times 10 rounding errors
        for columns in (40, 200):
            x = with_singular_values(torch.eye(40)[0], columns).to(dtype)
            assert torch.linalg.svdvals(orthogonalize(x).double())[1] < bound


def test_the_gram_form_agrees_with_products_of_x():
    x = random(3, 24, 120)
    norm, steps = torch.linalg.matrix_norm(x, keepdim=True), STEPS[torch.float32]
    arguments = (x, x @ x.mT / norm**2, norm, steps, 0.5)
    difference = _orthogonal._gram_form(*arguments) - _orthogonal._products_with_x(*arguments)
    assert difference.abs().max() < 1e-5  # float32, amplified by the steps before the restart
    assert difference.abs().max() > 0  # two computations indeed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_result_has_the_dtype_that_is_computed_in(dtype: torch.dtype):
    x = random(2, 6, 5, dtype=dtype)
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    y = orthogonalize(x)
    assert (y.dtype, y.shape) == (computed, x.shape)
    assert (y - polar(x)).abs().max() < 1e-4
    assert orthogonalize(x, dtype=torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(2, 130, 70), (1, 128, 128), (2, 70, 130), (1, 256, 64), (1, 300, 77)])
def test_the_kernel_for_symmetric_products_agrees_with_torch(shape: tuple[int, ...]):
    symmetric = pytest.importorskip("adamplus.optim._execution.fused.symmetric")
    for x in (random(*shape), random(shape[0], shape[2], shape[1]).mT):
        outer = x @ x.mT
        added = outer / outer.norm()
        expected = 0.5 * outer + 3 * torch.eye(shape[1]) + 2 * added
        # sums of 130 products in float32, in another order
        assert (symmetric.symmetric_product(x) - outer).abs().max() <= 1e-5 * outer.abs().max()
        found = symmetric.symmetric_product(x, factor=0.5, diagonal=3.0, added=added, added_factor=2.0)
        assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("shape", [(2, 20, 30), (2, 30, 20)])
def test_directions_by_the_kernel_agree_with_those_by_torch(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("triton")
    x = random(*shape)
    expected = orthogonalize(x)
    monkeypatch.setattr(_orthogonal, "_halves_products", lambda _: True)
    assert (orthogonalize(x) - expected).abs().max() < 1e-5


def test_without_triton_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "adamplus.optim._execution.fused.symmetric", None)
    monkeypatch.delattr("adamplus.optim._execution.fused.symmetric", raising=False)
    _orthogonal._kernels.cache_clear()
    try:
        assert _orthogonal._kernels() is None
    finally:
        _orthogonal._kernels.cache_clear()


def test_cuda_computes_in_bfloat16_unless_the_input_is_float64():
    class OnCuda:
        device = torch.device("cuda")

        def __init__(self, dtype: torch.dtype):
            self.dtype = dtype

    found = [computed_dtype(OnCuda(dtype)) for dtype in (torch.float16, torch.float32, torch.float64)]  # type: ignore[arg-type]
    assert found == [torch.bfloat16, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 4), (3, 40), (1, 7), (7, 1), (1, 1)])
def test_zeros_become_zeros(dtype: torch.dtype, shape: tuple[int, int]):
    assert torch.equal(orthogonalize(torch.zeros(2, *shape), dtype=dtype), torch.zeros(2, *shape, dtype=dtype))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [(6, 5), (4, 30), (1, 9)])
def test_a_matrix_that_is_not_finite_becomes_nan_and_leaves_the_others_alone(bad: float, shape: tuple[int, int]):
    x = random(4, *shape)
    clean = orthogonalize(x)
    x[1, 0, 2] = bad
    y = orthogonalize(x)
    assert y[1].isnan().all()
    assert torch.equal(y[[0, 2, 3]], clean[[0, 2, 3]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(6, 5), (4, 30), (1, 9)])
def test_the_result_does_not_depend_on_the_scale(dtype: torch.dtype, shape: tuple[int, int]):
    x = random(*shape)
    expected = orthogonalize(x, dtype=dtype)
    for power in (-100, -3, 5, 100):  # 2^±100 is 10^±30; powers of two do not round
        assert torch.equal(orthogonalize(x * 2.0**power, dtype=dtype), expected)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
def test_vectors_are_divided_by_their_norm(shape: tuple[int, int]):
    x = random(*shape)
    assert torch.allclose(orthogonalize(x, scale=3.0), 3 * x / x.norm(), rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0)])
def test_empty_tensors_stay_empty(shape: tuple[int, ...]):
    x = torch.zeros(shape, dtype=torch.bfloat16)
    y = orthogonalize(x)
    assert y.shape == shape
    assert y.dtype == torch.float32


@pytest.mark.parametrize("shape", [(16, 16), (8, 40), (3, 3), (40, 12)])
def test_a_batch_gives_what_its_matrices_give_alone(shape: tuple[int, int]):
    x = random(7, *shape)
    y = orthogonalize(x)
    for one, alone in zip(y, x, strict=True):
        # Bit for bit with MKL on x86; another library may sum a batch's products in another order.
        assert (one - orthogonalize(alone)).abs().max() < 1e-4
    assert torch.equal(y, orthogonalize(x))


def test_strided_input_gives_what_its_copy_gives():
    x = random(4, 20, 30)[:, ::2, 1::3]
    assert not x.is_contiguous()
    assert (orthogonalize(x) - orthogonalize(x.contiguous())).abs().max() < 1e-5  # other strides, other order of sums
    assert (orthogonalize(x.mT) - orthogonalize(x).mT).abs().max() < 1e-5
    many = random(2, 3, 4, 5)
    assert torch.equal(orthogonalize(many), orthogonalize(many.flatten(0, 1)).view(2, 3, 4, 5))


def test_there_is_no_autograd_graph_and_the_input_stays():
    x = random(5, 4).requires_grad_()
    before = x.detach().clone()
    assert not orthogonalize(x).requires_grad
    assert torch.equal(x, before)


def test_autocast_does_not_change_the_result():
    x = random(8, 8)
    expected = orthogonalize(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(orthogonalize(x), expected)


def test_devices_without_autocast_work(monkeypatch: pytest.MonkeyPatch):
    expected = orthogonalize(random(3, 4))
    monkeypatch.setattr(_orthogonal, "AUTOCAST", frozenset())
    monkeypatch.delattr(torch, "autocast")
    assert torch.equal(orthogonalize(random(3, 4)), expected)
