"""Directions of SpectralPlus beside a float64 SVD, and how tensors are read as matrices."""

import math
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from adamplus.optim import _orthogonal
from adamplus.optim._orthogonal import STEPS, check_geometry, computed_dtype, directions, matrices, orthogonalize

SCRIPT = Path(__file__).parents[2] / "docs" / "tables" / "polar_express.py"
SPECTRAL = {"geometry": "spectral", "scale": None, "stacked": False, "transposed": False, "blocks": 1}
SIGN = {**SPECTRAL, "geometry": "sign"}


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
    assert not directions([x], SPECTRAL)[0].requires_grad
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


@pytest.mark.parametrize("group", [{**SPECTRAL, "blocks": 2}, SIGN], ids=["spectral", "sign"])
def test_directions_are_one_graph_under_compile_without_waiting_for_the_device(group: dict[str, Any]):
    """fullgraph refuses .item() and all else that depends on data, so CUDA graphs can record the same operations."""
    zs = [random(6, 5), random(6, 5, seed=1)]
    compiled = torch.compile(lambda: directions(zs, group), fullgraph=True, backend="aot_eager")
    for found, expected in zip(compiled(), directions(zs, group), strict=True):
        assert torch.equal(found, expected)


def test_matrices_are_views_that_read_a_tensor_as_documented():
    linear = torch.arange(24.0).view(4, 6)
    (one,) = matrices(linear)
    assert torch.equal(one, linear[None])
    assert [m.tolist() for m in matrices(linear, blocks=2)] == [[linear[:2].tolist(), linear[2:].tolist()]]
    assert [m.shape for m in matrices(linear, blocks=(1, 3))] == [(1, 1, 6), (1, 3, 6)]
    assert torch.equal(matrices(linear, transposed=True)[0], linear.T[None])
    assert torch.equal(matrices(linear, transposed=True, blocks=3)[0][1], linear[:, 2:4].T)
    experts = torch.arange(48.0).view(2, 4, 6)
    assert torch.equal(matrices(experts, stacked=True)[0], experts)
    assert torch.equal(matrices(experts, stacked=True, transposed=True, blocks=(2, 4))[1], experts[:, :, 2:].mT)
    deep = torch.arange(48.0).view(2, 2, 3, 4)
    assert torch.equal(matrices(deep, stacked=True)[0], deep.flatten(0, 1))
    convolution = torch.arange(48.0).view(3, 4, 2, 2)
    assert torch.equal(matrices(convolution)[0], convolution.flatten(1)[None])
    assert torch.equal(matrices(convolution, transposed=True)[0], convolution.flatten(1).T[None])
    for t, settings in [
        (linear, {"blocks": (1, 3)}),
        (linear, {"transposed": True, "blocks": 3}),
        (experts, {"stacked": True, "transposed": True, "blocks": 2}),
        (deep, {"stacked": True}),
        (convolution, {}),
        (convolution, {"transposed": True}),
        (random(3, 4, 2, 2).to(memory_format=torch.channels_last), {}),
    ]:
        for m in matrices(t, **settings):
            m.zero_()
        assert (t == 0).all()


def expected_direction(z: Tensor, scale: float = 1.0, **settings: Any) -> Tensor:
    """s √(d_out/d_in) U Vᵀ by SVDs of the matrices, written into a contiguous copy."""
    result = z.double().contiguous()
    for m in matrices(result, **settings):
        for one in m:
            one.copy_(scale * math.sqrt(one.shape[0] / one.shape[1]) * polar(one.clone()))
    return result


@pytest.mark.parametrize(
    ("z", "settings"),
    [
        (random(8, 6), {}),
        (random(6, 8), {"scale": 0.3}),
        (random(3, 30), {}),
        (random(9, 5), {"blocks": 3}),
        (random(9, 5), {"blocks": (4, 5)}),
        (random(5, 9), {"transposed": True, "blocks": 3, "scale": 2.0}),
        (random(4, 5, 6), {"stacked": True}),
        (random(4, 5, 6), {"stacked": True, "transposed": True, "blocks": (2, 4)}),
        (random(2, 2, 5, 6), {"stacked": True}),
        (random(4, 3, 3, 3), {}),
        (random(4, 3, 3, 3).to(memory_format=torch.channels_last), {}),
        (random(3, 4, 3, 3).transpose(0, 1), {}),  # no views: a copy is read
        (random(6, 4, 5).transpose(0, 2), {}),
        (random(5, 2, 3, 4).permute(1, 0, 2, 3), {"stacked": True}),
        (random(5, 2, 3, 4).permute(1, 2, 0, 3), {"stacked": True}),
        (random(3, 1, 1, 1).expand(3, 2, 2, 2), {}),
        (random(5, 9, dtype=torch.bfloat16), {}),
        (random(5, 9, dtype=torch.float64), {}),
    ],
    ids=lambda x: "x".join(map(str, x.shape)) if isinstance(x, Tensor) else "-".join(x) or "default",
)
def test_spectral_directions_match_svds(z: Tensor, settings: dict[str, Any]):
    (found,) = directions([z], {**SPECTRAL, **settings})
    expected = expected_direction(z, **settings)
    if z.stride(-1) == 0:  # rank 1
        expected = z.double() / torch.linalg.vector_norm(z.double()) * math.sqrt(3 / 8)
    assert found.shape == z.shape
    assert found.dtype == (torch.float64 if z.dtype == torch.float64 else torch.float32)
    assert (found - expected).abs().max() < (1e-12 if z.dtype == torch.float64 else 1e-4)  # well-conditioned matrices


@pytest.mark.parametrize("at_once", [2**20, 60, 1], ids=["together", "two by two", "one by one"])
def test_batches_of_any_size_give_the_same_directions(at_once: int, monkeypatch: pytest.MonkeyPatch):
    zs = [random(5, 6, seed=seed) for seed in range(5)] + [random(6, 5, seed=9), random(0, 5), random(5, 0)]
    experts = random(5, 5, 6, seed=11)
    alone = [directions([z], SPECTRAL)[0] for z in [*zs, *experts]]
    monkeypatch.setitem(_orthogonal.AT_ONCE, "cpu", at_once)
    sizes: list[int] = []
    original = _orthogonal.orthogonalize

    def counted(x: Tensor, **settings: Any) -> Tensor:
        sizes.append(x.numel())
        return original(x, **settings)

    monkeypatch.setattr(_orthogonal, "orthogonalize", counted)
    together = directions(zs, SPECTRAL) + list(directions([experts], {**SPECTRAL, "stacked": True})[0])
    assert max(sizes) <= max(at_once, 30)
    assert sum(sizes) == 11 * 30
    assert len(sizes) == {2**20: 3, 60: 7, 1: 11}[at_once]
    for found, expected in zip(together, alone, strict=True):
        assert found.shape == expected.shape
        assert torch.allclose(found, expected, atol=1e-5)  # another order of sums, on some libraries


def test_sign_directions_keep_shape_and_dtype_and_show_what_is_not_finite():
    z = torch.tensor([2.0, -1e-30, 0.0, math.nan, math.inf])
    (found,) = directions([z], SIGN)
    assert torch.equal(found[:3], torch.tensor([0.04, -0.04, 0.0]))
    assert found[3:].isnan().all()
    half, vector = directions([random(3, 4, dtype=torch.bfloat16), random(2)], {**SIGN, "scale": 0.5})
    assert half.dtype == torch.bfloat16
    assert half.abs().unique().tolist() == [0.5]
    assert vector.abs().tolist() == [0.5, 0.5]


def test_an_empty_list_has_no_directions():
    assert directions([], SPECTRAL) == []
    assert directions([], SIGN) == []


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"geometry": "Spectral"}, ValueError, "geometry must be one of 'spectral', 'sign', got 'Spectral'"),
        ({"scale": "1"}, TypeError, "scale must be a number or None, got '1'"),
        ({"scale": True}, TypeError, "scale must be a number or None, got True"),
        ({"scale": 0.0}, ValueError, "scale must be finite and greater than 0, got 0.0"),
        ({"scale": math.inf}, ValueError, "scale must be finite and greater than 0, got inf"),
        ({"scale": math.nan}, ValueError, "scale must be finite and greater than 0, got nan"),
        ({"stacked": 1}, TypeError, "stacked must be True or False, got 1"),
        ({"transposed": None}, TypeError, "transposed must be True or False, got None"),
        ({"blocks": 2.0}, TypeError, "blocks must be an int or a tuple of ints, got 2.0"),
        ({"blocks": [2, 2]}, TypeError, r"blocks must be an int or a tuple of ints, got \[2, 2\]"),
        ({"blocks": True}, TypeError, "blocks must be an int or a tuple of ints, got True"),
        ({"blocks": 0}, ValueError, "blocks must be at least 1, got 0"),
        ({"blocks": (4, 0)}, ValueError, r"blocks must be at least 1, got \(4, 0\)"),
        ({"blocks": ()}, ValueError, r"blocks must have at least one size, got \(\)"),
    ],
)
def test_settings_that_a_group_may_not_have_are_refused(settings: dict[str, Any], error: type[Exception], message: str):
    for geometry in ({}, {"geometry": "sign"}):
        with pytest.raises(error, match=message):
            check_geometry({**SPECTRAL, **geometry, **settings}, [])


@pytest.mark.parametrize(
    ("shape", "settings", "message"),
    [
        ((), {}, r"needs matrices, got shape \(\): use geometry='sign'"),
        ((5,), {}, r"needs matrices, got shape \(5,\): use geometry='sign'"),
        ((4, 6), {"stacked": True}, r"stacked=True needs at least 3 dimensions, got shape \(4, 6\)"),
        ((4, 6, 3), {"transposed": True, "blocks": 2}, r"blocks=2 needs a 2-D parameter, got shape \(4, 6, 3\)"),
        ((4, 6), {"blocks": 3}, r"blocks=3 does not divide the output dimension 4, got shape \(4, 6\)"),
        ((4, 6), {"blocks": (2, 3)}, r"blocks=\(2, 3\) sum to 5, not to the output dimension 4"),
        ((4, 6), {"blocks": 4, "transposed": True}, "blocks=4 does not divide the output dimension 6"),
        ((2, 4, 6), {"blocks": 3, "stacked": True}, "blocks=3 does not divide the output dimension 4"),
        ((2, 4, 6), {"blocks": 4, "stacked": True, "transposed": True}, "does not divide the output dimension 6"),
    ],
)
def test_shapes_that_are_no_such_matrices_are_refused(shape: tuple[int, ...], settings: dict[str, Any], message: str):
    p = torch.zeros(shape)
    with pytest.raises(ValueError, match=message):
        check_geometry({**SPECTRAL, **settings}, [p])
    with pytest.raises(ValueError, match=message):
        matrices(p, **settings)
    check_geometry({**SIGN, **settings}, [p])


def test_complex_parameters_are_refused():
    for group in (SPECTRAL, SIGN):
        with pytest.raises(TypeError, match=r"no direction for complex parameters, got torch\.complex64: use AdamPlus"):
            check_geometry(group, [torch.zeros(2, 2, dtype=torch.complex64)])


def test_settings_and_parameters_that_fit_are_accepted():
    check_geometry({**SPECTRAL, "scale": 2}, [torch.zeros(2, 2), torch.zeros(2, 3, 3, 3)])
    check_geometry({**SPECTRAL, "stacked": True, "transposed": True, "blocks": (1, 2)}, [torch.zeros(2, 4, 3)])
