"""Trees of any structure, shapes and dtypes: the same step as torch's reference, and nothing changes its type."""

from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from hypothesis import given, settings
from jax_cases import EUCLIDEAN

from adamplus import AdamPlusReference
from adamplus.jax import eval_params, spectral_plus

TOLERANCES = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 4e-2}  # of three steps, relative to the largest entry
SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 2), (1, 4), (2, 2, 2)]  # few, because each is compiled

leaves = st.tuples(st.sampled_from(SHAPES), st.sampled_from(sorted(TOLERANCES)))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1),
        st.tuples(inner, st.none()),
    ),
    max_leaves=5,
)


def is_leaf(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) == 2 and isinstance(x[1], str)


def check_tree(tree: Any, member: str, decay: float, decoupled: bool) -> None:
    """Three steps with one tree of shapes and dtypes."""
    random = np.random.default_rng(0)
    made = jax.tree.map(lambda leaf: jnp.asarray(random.standard_normal(leaf[0]), leaf[1]), tree, is_leaf=is_leaf)
    factory, powers = EUCLIDEAN[member]
    optimizer = factory(0.1, weight_decay=decay, decoupled_weight_decay=decoupled)
    params, state = made, optimizer.init(made)
    held = [torch.nn.Parameter(torch.from_numpy(np.array(p, np.float64))) for p in jax.tree.leaves(made)]
    reference = AdamPlusReference(held, lr=0.1, weight_decay=decay, decoupled_weight_decay=decoupled, **powers)
    for _ in range(3):
        grads = jax.tree.map(lambda p: jnp.asarray(random.standard_normal(p.shape), p.dtype), made)
        updates, new = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        for before, after in ((state, new), (made, params), (made, updates)):
            assert jax.tree.structure(before) == jax.tree.structure(after)
            pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
            assert all((a.dtype, a.shape) == (b.dtype, b.shape) for a, b in pairs)
        state = new
        for p, g in zip(held, jax.tree.leaves(grads), strict=True):
            p.grad = torch.from_numpy(np.array(g, np.float64))
        reference.step()
    w = eval_params(state, params)
    assert jax.tree.structure(w) == jax.tree.structure(params)
    rows = zip(jax.tree.leaves(params), jax.tree.leaves(w), held, strict=True)
    # leaves share one norm, so that each has the error of the least precise one
    tolerance = max(TOLERANCES[str(p.dtype)] for p in jax.tree.leaves(made))
    for p, own_w, q in rows:
        for found, right in ((p, reference.state[q]["w_hat"]), (own_w, reference.state[q]["w"])):
            scale = 1 + right.abs().max().item() if right.numel() else 1
            np.testing.assert_allclose(np.asarray(found, np.float64), right.numpy(), atol=tolerance * scale, rtol=0)


ANY = {"tree": trees, "member": st.sampled_from(sorted(EUCLIDEAN)), "decay": st.sampled_from([0.0, 0.5])}


@pytest.mark.usefixtures("x64")
@settings(max_examples=8)
@given(**ANY, decoupled=st.booleans())
def test_any_tree_takes_the_steps_of_the_reference(tree: Any, member: str, decay: float, decoupled: bool):
    check_tree(tree, member, decay, decoupled)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@settings(max_examples=300)
@given(**ANY, decoupled=st.booleans())
def test_many_trees_take_the_steps_of_the_reference(tree: Any, member: str, decay: float, decoupled: bool):
    check_tree(tree, member, decay, decoupled)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@settings(max_examples=100)
@given(tree=trees)
def test_any_tree_can_take_spectral_steps(tree: Any):
    made = jax.tree.map(lambda leaf: jnp.ones(*leaf), tree, is_leaf=is_leaf)

    def geometry(path: str, leaf: Any) -> str:
        return "spectral" if leaf.ndim > 1 else "sign"

    optimizer = spectral_plus(0.1, geometry=geometry)
    updates, state = optimizer.update(made, optimizer.init(made), made)
    w = eval_params(state, optax.apply_updates(made, updates), geometry)
    assert [(x.dtype, x.shape) for x in jax.tree.leaves(w)] == [(x.dtype, x.shape) for x in jax.tree.leaves(made)]
    assert all(np.isfinite(np.asarray(x, np.float64)).all() for x in jax.tree.leaves(w))
