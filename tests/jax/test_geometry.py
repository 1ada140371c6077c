"""Directions of `spectral_plus` and the routing of leaves to them."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from adamplus.jax import Sign, Spectral, default_geometry, eval_params, spectral_plus
from adamplus.jax._geometry import direction, orthogonalize
from adamplus.optim._orthogonal import orthogonalize as orthogonalize_in_torch


def with_singular_values(sigma: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """A matrix with these singular values, and its U Vᵀ."""
    random = np.random.default_rng(0)
    u, _ = np.linalg.qr(random.standard_normal((rows, len(sigma))))
    v, _ = np.linalg.qr(random.standard_normal((columns, len(sigma))))
    return (u * sigma) @ v.T, u @ v.T


@pytest.mark.parametrize(
    ("dtype", "least", "tolerance"),
    [
        ("float64", 1e-5, 1e-9),  # 2e-9 is allowed at 1.4e-6, and errors grow as 1/σ
        ("float32", 1e-3, 1e-3),
        ("bfloat16", 0.05, 0.2),  # of which 0.10 are the polynomials'
    ],
)
@pytest.mark.parametrize(
    ("rows", "columns"), [(6, 6), *(pytest.param(*x, marks=pytest.mark.slow) for x in ((5, 17), (17, 5)))]
)
def test_the_direction_is_that_of_the_svd(dtype: str, least: float, tolerance: float, rows: int, columns: int):
    z, right = with_singular_values(np.geomspace(1, least, min(rows, columns)), rows, columns)
    with jax.enable_x64(dtype == "float64"):
        found = np.asarray(
            jax.jit(orthogonalize)(jnp.asarray(1e4 * z[None], dtype)).astype("float32" if dtype != "float64" else dtype)
        )
    np.testing.assert_allclose(found[0], right, atol=tolerance)


def test_small_singular_values_grow_as_in_torch():
    z, _ = with_singular_values(np.geomspace(1, 1e-5, 8), 8, 12)
    theirs = orthogonalize_in_torch(torch.from_numpy(z), dtype=torch.float32).numpy()
    ours = np.asarray(jax.jit(orthogonalize)(jnp.asarray(z[None], "float32"))[0])
    sigma = [np.linalg.svd(x, compute_uv=False) for x in (ours, theirs)]
    assert sigma[0][-1] < 0.5  # not yet 1
    np.testing.assert_allclose(sigma[0], sigma[1], atol=1e-3)


def test_zeros_rows_and_empty_matrices_have_directions():
    assert not np.asarray(orthogonalize(jnp.zeros((2, 3, 4)))).any()
    np.testing.assert_allclose(orthogonalize(jnp.array([[[3.0, 4.0]]])), [[[0.6, 0.8]]], rtol=1e-6)
    assert orthogonalize(jnp.zeros((1, 0, 4))).shape == (1, 0, 4)


def test_a_matrix_that_is_not_finite_becomes_nan_and_no_other():
    stack = jnp.ones((2, 3, 4)).at[0, 1, 1].set(jnp.inf)
    found = np.asarray(orthogonalize(stack))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()
    assert np.isnan(direction(jnp.array([1.0, jnp.inf]), Sign())).tolist() == [False, True]


def test_layouts_are_matrices_of_their_axes():
    z = jnp.asarray(np.random.default_rng(0).standard_normal((2, 3, 4, 6)), "float32")

    def flat(x: Any, order: tuple[int, ...], rows: int) -> Any:
        return np.asarray(x).transpose(order).reshape(-1, rows, x.size // rows)

    whole = direction(z, Spectral(output=-1))
    np.testing.assert_allclose(flat(whole, (3, 0, 1, 2), 6)[0], np.sqrt(6 / 24) * np.asarray(
        orthogonalize(jnp.asarray(flat(z, (3, 0, 1, 2), 6))))[0], atol=1e-6)  # fmt: skip
    each = direction(z, Spectral(output=(2, 3), batch=0))
    for i in range(2):
        alone = direction(z[i].reshape(3, 24), Spectral())
        np.testing.assert_allclose(each[i].reshape(3, 24), alone, atol=1e-6)
    packed = direction(z[0, 0], Spectral(blocks=(1, 5)))
    np.testing.assert_allclose(packed[:, 1:], direction(z[0, 0, :, 1:], Spectral()), atol=1e-6)


@pytest.mark.parametrize(
    ("path", "shape", "geometry"),
    [
        ("layers/0/kernel", (8, 16), Spectral()),
        ("layers/0/weight", (8, 16), Spectral(output=0)),
        ("layers/0/weight", (8, 4, 3, 3), Spectral(output=0)),
        ("wq", (8, 16), Spectral()),
        ("conv/kernel", (3, 3, 4, 8), Spectral()),
        ("attention/query/kernel", (8, 2, 4), Spectral(output=(-2, -1))),
        ("attention/out/kernel", (2, 4, 8), Spectral()),
        ("attention/query/bias", (2, 4), Sign()),
        ("norm/scale", (8,), Sign()),
        ("layers/0/kernel", (1, 16), Sign()),
        ("token_embed/embedding", (100, 8), Sign()),
        ("pos_embedding", (1, 16, 8), Sign()),
        ("lm_head/kernel", (8, 100), Sign()),
        ("temperature", (), Sign()),
        ("wte/embedding", (100, 8), Sign()),
        ("Embed_0/embedding", (100, 8), Sign()),
        ("embed/embeddings", (100, 8), Sign()),
        ("encoder/positions", (16, 8), Sign()),
        ("cls_token", (1, 4, 8), Sign()),
        ("head", (8, 100), Sign()),
        ("model/classifier/kernel", (8, 100), Sign()),
        ("text_embedder/layers_0/mlp/kernel", (8, 16), Spectral()),
        ("decomposition/kernel", (8, 16), Spectral()),
        ("classifier/Dense_0/kernel", (8, 16), Spectral()),
        ("heads/0/query/kernel", (8, 2, 4), Spectral(output=(-2, -1))),
        ("encoder/score/kernel", (8, 16), Spectral()),
    ],
)
def test_the_default_geometry(path: str, shape: tuple[int, ...], geometry: Any):
    assert default_geometry(path, jnp.zeros(shape)) == geometry


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("layers/kernel", (4, 8, 16)),
        ("conv/kernel", (3, 3, 1, 8)),
        ("attention/query/kernel", (2, 8, 2, 4)),
        ("x", (2, 3, 4)),
    ],
)
def test_leaves_without_a_rule_are_refused(path: str, shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=f"no rule says which matrices {path}"):
        default_geometry(path, jnp.zeros(shape))


PARAMS = {"a": {"kernel": jnp.ones((4, 6)), "bias": jnp.ones(6)}, "b": [jnp.ones((3, 2)), jnp.ones((2, 3, 3))]}


def layout_of(geometry: Any) -> list[int]:
    state: Any = spectral_plus(0.1, geometry=geometry).init(PARAMS)
    return np.asarray(state.layout).tolist()


def test_a_geometry_may_be_a_tree_or_a_prefix_or_a_function():
    stack = Spectral(batch=0)
    trees: list[Any] = [
        {"a": {"kernel": "spectral", "bias": "sign"}, "b": [Sign(), stack]},
        {"a": {"kernel": Spectral(), "bias": Sign()}, "b": ["sign", stack]},
        lambda path, leaf: stack if path == "b/1" else "sign" if path in ("a/bias", "b/0") else "spectral",
    ]
    layouts = [layout_of(tree) for tree in trees]
    assert layouts[0] == layouts[1] == layouts[2]
    assert len(set(layouts[0])) == 3
    assert len(set(layout_of(Sign()))) == 1


@pytest.mark.parametrize(
    ("geometry", "error", "message"),
    [
        (Spectral(), ValueError, r"needs matrices, got output=-1 and batch=\(\) for a/bias of shape \(6,\)"),
        (lambda path, leaf: "muon", TypeError, "geometry must be Spectral.*got 'muon' for a/bias"),
        (Sign(scale=0.0), ValueError, "scale must be finite and greater than 0, got 0.0 for a/bias"),
        (lambda path, leaf: Sign() if leaf.ndim == 1 else Spectral(blocks=5), ValueError, "blocks=5 do not divide"),
        (lambda path, leaf: Sign() if leaf.ndim == 1 else Spectral(output=7), ValueError, r"axes must be in \[-2, 2\)"),
        ({"a": Sign(), "b": Spectral(dtype="float16")}, ValueError, "dtype must be one of .*, got 'float16' for b/0"),
    ],
)
def test_geometries_that_do_not_fit_are_refused(geometry: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        spectral_plus(0.1, geometry=geometry).init(PARAMS)


def test_another_geometry_than_that_of_the_state_is_not_used_silently():
    optimizer = spectral_plus(0.1, geometry=Sign())
    updates, state = optimizer.update(PARAMS, optimizer.init(PARAMS), PARAMS)
    params = optax.apply_updates(PARAMS, updates)
    other = {"a": "sign", "b": ["spectral", "sign"]}
    with pytest.raises(ValueError, match="the geometry of b/0 differs from the one that the state was made with"):
        eval_params(state, params, other)
    found: Any = jax.jit(lambda state, params: eval_params(state, params, other))(state, params)
    assert np.isnan(found["b"][0]).all()
    assert np.isfinite(found["a"]["kernel"]).all()
    for lookahead in (1.0, 0.0):
        continued: Any = spectral_plus(0.1, lookahead=lookahead, geometry=other)
        with pytest.raises(ValueError, match="the geometry of b/0 differs"):
            continued.update(PARAMS, state, params)
        updates, _ = jax.jit(continued.update)(PARAMS, state, params)
        assert np.isnan(updates["b"][0]).all()


def test_the_state_knows_the_matrices_and_not_how_they_are_written_or_computed():
    def layout(one: Spectral) -> list[int]:
        state: Any = spectral_plus(0.1, geometry=one).init(jnp.ones((4, 6)))
        return np.asarray(state.layout).tolist()

    right = layout(Spectral(blocks=2))
    same = (
        Spectral(blocks=(3, 3)),
        Spectral(blocks=2, dtype="bfloat16"),
        Spectral(blocks=2, scale=3.0),
        Spectral(output=cast(int, np.int64(1)), blocks=cast(int, np.int64(2))),
        Spectral(output=(-1,), blocks=2),
    )
    assert [layout(one) for one in same] == [right] * len(same)
    others = [layout(one) for one in (Spectral(), Spectral(blocks=(2, 4)), Spectral(output=0, blocks=2))]
    assert len({*map(tuple, (right, *others))}) == 4


def test_fingerprints_are_those_of_stored_states():
    """Checkpoints contain them, so they may never change."""
    state: Any = spectral_plus(0.1, geometry=[Sign(), Spectral(batch=0)]).init([jnp.ones(3), jnp.ones((2, 3, 4))])
    assert np.asarray(state.layout).tolist() == [1753367476, 1119466803]


def test_another_scale_does_not_falsify_w():
    optimizer = spectral_plus(0.1, geometry=Sign(1.0), weight_decay=0.0)
    updates, state = optimizer.update(PARAMS, optimizer.init(PARAMS), PARAMS)
    params = optax.apply_updates(PARAMS, updates)
    w = jax.tree.map(lambda p: p - 0.1, PARAMS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), eval_params(state, params, Sign(5.0)), w)


def test_a_look_ahead_of_zero_undoes_an_earlier_one():
    ahead, at_w = (spectral_plus(0.1, lookahead=x, geometry=Sign()) for x in (3.0, 0.0))
    updates: Any = None
    updates, state = ahead.update(PARAMS, ahead.init(PARAMS), PARAMS)
    params = optax.apply_updates(PARAMS, updates)
    w = eval_params(state, params, Sign())
    zero = spectral_plus(0.0, lookahead=0.0, geometry=Sign())
    updates, state = zero.update(PARAMS, state, params)
    found = optax.apply_updates(params, updates)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, w)
    updates, _ = at_w.update(PARAMS, state, found)
    jax.tree.map(lambda u: np.testing.assert_allclose(u, -0.1 * 0.04, rtol=1e-6), updates)
