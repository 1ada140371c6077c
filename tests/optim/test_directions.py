"""Directions of SpectralPlus beside a float64 SVD, and how tensors are read as matrices."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from adamplus.optim import _directions
from adamplus.optim._directions import check_geometry, directions, matrices

SPECTRAL = {"geometry": "spectral", "scale": None, "stacked": False, "transposed": False, "blocks": 1}
SIGN = {**SPECTRAL, "geometry": "sign"}


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def polar(x: Tensor) -> Tensor:
    """U Vᵀ by a float64 SVD."""
    u, _, vh = torch.linalg.svd(x.double(), full_matrices=False)
    return u @ vh


def test_directions_have_no_autograd_graph():
    x = random(5, 4).requires_grad_()
    assert not any(directions([x], group)[0].requires_grad for group in (SPECTRAL, SIGN))


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
    monkeypatch.setitem(_directions.AT_ONCE, "cpu", at_once)
    sizes: list[int] = []
    original = _directions.orthogonalize

    def counted(x: Tensor, **settings: Any) -> Tensor:
        sizes.append(x.numel())
        return original(x, **settings)

    monkeypatch.setattr(_directions, "orthogonalize", counted)
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
