"""What optax requires of an optimizer in its `contrib`, tested here for each member."""

import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax_cases import EUCLIDEAN

from adamplus.jax import AdamPlusState, Sign, adam_plus, eval_params, nadam_plus, nigt, spectral_plus

MEMBERS: dict[str, Callable[..., Any]] = {**{name: factory for name, (factory, _) in EUCLIDEAN.items()}}
MEMBERS["spectral_plus"] = spectral_plus
PARAMS = {"kernel": jnp.array([[1.0, -2.0, 0.5], [0.3, 2.0, -1.0]]), "bias": jnp.array([-1.0, 3.0])}

every_member = pytest.mark.parametrize(  # nadam_plus and nigt are adam_plus with other exponents
    "factory",
    [
        pytest.param(factory, id=name, marks=[pytest.mark.slow] if name in ("nadam_plus", "nigt") else [])
        for name, factory in MEMBERS.items()
    ],
)


def loss(params: Any) -> jax.Array:
    return sum((jnp.sum((p - 0.5) ** 2) for p in jax.tree.leaves(params)), jnp.zeros([]))


def stepper(optimizer: Any, **extra: Any) -> Any:
    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(jax.grad(loss)(params), state, params, **extra)
        return optax.apply_updates(params, updates), state

    return step


def dtypes(tree: Any) -> list[Any]:
    return [(x.dtype, x.shape, x.weak_type) for x in jax.tree.leaves(tree)]


def assert_equal(a: Any, b: Any, **tolerance: Any) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerance), a, b)


@every_member
def test_unknown_extra_arguments_are_accepted(factory: Callable[..., Any]):
    params, state = stepper(factory(1e-2), an_argument_of_another_transformation=1)(PARAMS, factory(1e-2).init(PARAMS))
    assert isinstance(factory(1e-2), optax.GradientTransformationExtraArgs)
    assert state.step == 1
    assert not np.array_equal(params["bias"], PARAMS["bias"])


@every_member
@pytest.mark.parametrize("scheduled", [False, True])
def test_the_second_step_is_not_compiled_again(factory: Callable[..., Any], scheduled: bool, caplog: Any):
    rate = optax.linear_schedule(1e-2, 0.0, 100) if scheduled else 1e-2
    optimizer = factory(rate)
    step = stepper(optimizer)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        params, state = step(PARAMS, optimizer.init(PARAMS))
        compiled = [r for r in caplog.messages if "Finished XLA compilation of jit(step)" in r]
        caplog.clear()
        for _ in range(3):
            params, state = step(params, state)
    assert len(compiled) == 1
    assert [message for message in caplog.messages if "ompil" in message] == []


@every_member
def test_the_state_of_init_and_of_update_have_the_same_types(factory: Callable[..., Any]):
    for dtype in (jnp.float16, jnp.bfloat16, jnp.float32):
        params = jax.tree.map(lambda p, dtype=dtype: p.astype(dtype), PARAMS)
        optimizer = factory(1e-2)
        state = optimizer.init(params)
        (updates, after) = jax.eval_shape(optimizer.update, params, state, params)
        assert jax.tree.structure(after) == jax.tree.structure(state)
        assert dtypes(after) == dtypes(state)
        assert [u.dtype for u in jax.tree.leaves(updates)] == [dtype, dtype]
        assert {z.dtype for z in jax.tree.leaves(state.z)} == {jnp.dtype("float32")}


@pytest.mark.usefixtures("x64")
@every_member
def test_the_types_of_mixed_precision_are_stable(factory: Callable[..., Any]):
    """State goes through lax.cond, which requires equal types, and gradients may have another dtype."""
    params = {"kernel": jnp.ones((2, 3), jnp.float64), "bias": jnp.ones(2, jnp.bfloat16), "scale": jnp.ones(2)}
    optimizer = factory(optax.linear_schedule(0.1, 0.0, 10))
    state = optimizer.init(params)
    grads = jax.tree.map(lambda p: p.astype(jnp.float32), params)

    @jax.jit
    def step(flag: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return jax.lax.cond(flag, lambda: optimizer.update(grads, state, params), lambda: (zeros, state))

    updates, after = step(True)
    assert dtypes(updates) == dtypes(params)
    assert dtypes(after) == dtypes(state)
    assert (after.z["bias"].dtype, after.z["kernel"].dtype, after.offset.dtype) == ("float32", "float64", "float64")


@every_member
def test_state_dtype_is_the_dtype_of_z(factory: Callable[..., Any]):
    optimizer = factory(1e-2, state_dtype=jnp.bfloat16)
    params, state = stepper(optimizer)(PARAMS, optimizer.init(PARAMS))
    assert {z.dtype for z in jax.tree.leaves(state.z)} == {jnp.dtype("bfloat16")}
    exact, _ = stepper(factory(1e-2))(PARAMS, factory(1e-2).init(PARAMS))
    assert_equal(params, exact, rtol=1e-2)  # bfloat16 has 8 bits


@every_member
def test_injected_settings_take_the_same_steps(factory: Callable[..., Any]):
    plain, injected = factory(1e-2), optax.inject_hyperparams(factory)(1e-2)
    a, b = take(plain, PARAMS), take(injected, PARAMS)
    assert_equal(a[0], b[0], rtol=1e-5)
    assert_equal(a[1], b[1].inner_state, rtol=1e-5)
    assert_equal(eval_params(a[1], a[0]), eval_params(b[1], b[0]), rtol=1e-5)


@every_member
def test_injected_settings_can_be_changed_between_steps(factory: Callable[..., Any]):
    injected = optax.inject_hyperparams(factory)(1e-2, weight_decay=0.1)
    step = stepper(injected)
    params, state = step(PARAMS, injected.init(PARAMS))
    w = eval_params(state, params)
    state.hyperparams["learning_rate"] = jnp.asarray(0.0)
    params, state = step(params, state)
    assert_equal(eval_params(state, params), w, rtol=1e-5)  # the offset undoes the last extrapolation, not this one
    assert_equal(params, w, rtol=1e-5)


@every_member
def test_multi_steps_accumulates_gradients(factory: Callable[..., Any]):
    halves = [jax.tree.map(lambda p, s=s: s * p, PARAMS) for s in (0.5, 1.5)]
    every_two = optax.MultiSteps(factory(1e-2), every_k_schedule=2)
    update = jax.jit(every_two.update)
    state, params = every_two.init(PARAMS), PARAMS
    for i in range(4):
        updates, state = update(halves[i % 2], state, params)
        if i % 2 == 0:
            assert_equal(updates, jax.tree.map(jnp.zeros_like, PARAMS))
        params = optax.apply_updates(params, updates)
    plain, whole = factory(1e-2), PARAMS
    right = plain.init(PARAMS)
    update = jax.jit(plain.update)
    for _ in range(2):
        updates, right = update(PARAMS, right, whole)
        whole = optax.apply_updates(whole, updates)
    assert_equal(params, whole, rtol=1e-5)
    assert_equal(eval_params(state, params), eval_params(right, whole), rtol=1e-5)


@every_member
def test_map_params_finds_z_and_keeps_the_rest(factory: Callable[..., Any]):
    optimizer = factory(1e-2)
    _, state = stepper(optimizer)(PARAMS, optimizer.init(PARAMS))
    assert_equal(optax.tree.map_params(optimizer, lambda z: z, state), state)
    named: Any = optax.tree.map_params(
        optimizer, lambda _, name: name, state, {"kernel": "k", "bias": "b"}, transform_non_params=lambda _: "scalar"
    )
    assert named.z == {"kernel": "k", "bias": "b"}
    assert {named.step, named.offset} == {"scalar"}


def test_map_params_needs_no_routing_that_fits_its_placeholder():
    optimizer = spectral_plus(1e-2, geometry={"kernel": "spectral", "bias": "sign"})
    state = optimizer.init(PARAMS)
    assert_equal(optax.tree.map_params(optimizer, lambda z: z, state), state)


@every_member
def test_buffers_can_be_donated(factory: Callable[..., Any]):
    optimizer = factory(1e-2)
    step = stepper(optimizer)
    donating = jax.jit(step, donate_argnums=(0, 1))
    right, found = (PARAMS, optimizer.init(PARAMS)), (jax.tree.map(jnp.copy, PARAMS), optimizer.init(PARAMS))
    for _ in range(3):
        held = jax.tree.leaves(found)
        right, found = step(*right), donating(*found)
        assert all(x.is_deleted() for x in held if x.ndim == 2)
    assert_equal(found, right)


@every_member
def test_the_members_find_the_minimum(factory: Callable[..., Any]):
    rate = {adam_plus: 1.0, nadam_plus: 1.0, nigt: 0.05, spectral_plus: 0.5}[factory]
    options = {"weight_decay": 0.0} if factory is spectral_plus else {}
    optimizer = factory(optax.cosine_decay_schedule(rate, 600), **options)

    @jax.jit
    def train(params: Any) -> Any:
        step = stepper(optimizer)
        carry, _ = jax.lax.scan(lambda carry, _: (step(*carry), None), (params, optimizer.init(params)), length=600)
        return eval_params(carry[1], carry[0])

    assert_equal(train(PARAMS), jax.tree.map(lambda p: jnp.full_like(p, 0.5), PARAMS), atol=3e-2)


# evaluation at w


def take(optimizer: Any, params: Any, steps: int = 3) -> tuple[Any, Any]:
    step, pair = stepper(optimizer), (params, optimizer.init(params))
    for _ in range(steps):
        pair = step(*pair)
    return pair


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "chain": lambda own: optax.chain(optax.clip_by_global_norm(1e6), own),
    "named_chain": lambda own: optax.named_chain(("clip", optax.clip_by_global_norm(1e6)), ("own", own)),
    "masked": lambda own: optax.masked(own, True),
    "multi_transform": lambda own: optax.multi_transform({"a": own}, "a"),
    "MultiSteps": lambda own: optax.MultiSteps(own, 1).gradient_transformation(),
    "apply_if_finite": lambda own: optax.apply_if_finite(own, 3),
    "all of them": lambda own: optax.apply_if_finite(
        optax.MultiSteps(optax.chain(optax.clip(1e6), optax.masked(own, True)), 1).gradient_transformation(), 3
    ),
}


@pytest.mark.parametrize(
    ("factory", "wrapper"),
    [(adam_plus, name) for name in WRAPPERS]
    + [pytest.param(spectral_plus, name, marks=pytest.mark.slow) for name in WRAPPERS if name != "all of them"]
    + [(spectral_plus, "all of them")],
)
def test_w_is_found_in_the_states_of_wrappers(factory: Callable[..., Any], wrapper: str):
    params, state = take(factory(1e-2), PARAMS)
    wrapped_params, wrapped_state = take(WRAPPERS[wrapper](factory(1e-2)), PARAMS)
    assert_equal(wrapped_params, params, rtol=1e-6)
    assert_equal(eval_params(wrapped_state, wrapped_params), eval_params(state, params), rtol=1e-6)
    compiled = jax.jit(eval_params)(wrapped_state, wrapped_params)
    assert_equal(compiled, eval_params(state, params), rtol=1e-6)


def test_masked_leaves_are_neither_touched_nor_counted():
    params = {"trained": PARAMS, "frozen": {"a": jnp.ones(3), "b": jnp.ones((2, 2))}}
    optimizer = optax.masked(adam_plus(1e-2), {"trained": True, "frozen": False})
    grads = jax.tree.map(jnp.ones_like, params)
    state = optimizer.init(params)
    updates: Any
    updates, state = optimizer.update(grads, state, params)
    assert_equal(updates["frozen"], grads["frozen"])  # optax passes what it masks: combine it with set_to_zero
    alone, own = adam_plus(1e-2).update(grads["trained"], adam_plus(1e-2).init(PARAMS), PARAMS)
    assert_equal(updates["trained"], alone, rtol=1e-6)
    found = eval_params(state, params)
    assert_equal(found["frozen"], params["frozen"])
    assert_equal(found["trained"], eval_params(own, PARAMS), rtol=1e-6)


def test_members_can_share_a_tree():
    labels = {"kernel": "matrices", "bias": "vectors"}
    members: Any = {"matrices": nigt(1e-2), "vectors": spectral_plus(1e-2, geometry=lambda path, p: Sign(0.5))}
    params, state = take(optax.multi_transform(members, labels), PARAMS)
    found = eval_params(state, params, geometry=lambda path, p: Sign(0.5))
    for name, label in labels.items():
        alone, own = take(members[label], {name: PARAMS[name]})
        assert_equal(found[name], eval_params(own, alone, lambda path, p: Sign(0.5))[name], rtol=1e-6)


def test_a_state_without_a_member_is_refused():
    with pytest.raises(ValueError, match="has no AdamPlusState and no SpectralPlusState"):
        eval_params(optax.adam(1e-3).init(PARAMS), PARAMS)


def test_two_members_in_a_chain_are_refused():
    state = optax.chain(adam_plus(1e-2), adam_plus(1e-2)).init(PARAMS)
    with pytest.raises(ValueError, match="trained by 2 members"):
        eval_params(state, PARAMS)


# settings and numbers at the edges


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: adam_plus(-0.1), "learning_rate must be finite and at least 0, got -0.1"),
        (lambda: adam_plus(0.1, 0.0), r"beta must be in \(0, 1\], got 0.0"),
        (lambda: adam_plus(0.1, norm_power=1.5), r"norm_power must be in \[0, 1\], got 1.5"),
        (lambda: adam_plus(0.1, lookahead=-1.0), "lookahead must be finite and at least 0, or None, got -1.0"),
        (lambda: nigt(0.1, 1.0), r"momentum must be in \[0, 1\), got 1.0"),
        (lambda: spectral_plus(0.1, weight_decay=float("nan")), "weight_decay must be finite and at least 0, got nan"),
    ],
)
def test_settings_outside_of_their_ranges_are_refused(make: Callable[[], Any], message: str):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_setting_that_is_no_number_is_refused():
    with pytest.raises(TypeError, match="learning_rate must be a number, an array or a schedule, got True"):
        adam_plus(True)


@every_member
def test_update_without_parameters_is_refused(factory: Callable[..., Any]):
    with pytest.raises(ValueError, match="needs the parameters"):
        factory(0.1).update(PARAMS, factory(0.1).init(PARAMS))


def test_integer_parameters_are_refused():
    with pytest.raises(TypeError, match="int32, which no step can move"):
        adam_plus(0.1).init({"table": jnp.arange(3)})


@every_member
def test_zero_gradients_are_no_nan(factory: Callable[..., Any]):
    for eps in ({"eps": 0.0}, {}) if factory is not spectral_plus else ({},):
        optimizer = factory(0.1, **eps)
        zeros = jax.tree.map(jnp.zeros_like, PARAMS)
        updates, state = optimizer.update(zeros, optimizer.init(PARAMS), PARAMS)
        params = optax.apply_updates(PARAMS, updates)
        assert all(np.isfinite(x).all() for x in jax.tree.leaves((params, state, eval_params(state, params))))


@every_member
def test_infinite_gradients_are_not_hidden(factory: Callable[..., Any]):
    grads = {**PARAMS, "kernel": PARAMS["kernel"].at[0, 0].set(jnp.inf), "bias": PARAMS["bias"].at[0].set(jnp.inf)}
    updates, _ = factory(0.1).update(grads, factory(0.1).init(PARAMS), PARAMS)
    assert all(np.isnan(u).any() for u in jax.tree.leaves(updates))


@pytest.mark.parametrize("size", [1e20, 1e-25])
def test_squares_of_gradients_neither_overflow_nor_vanish(size: float):
    """Of float32 entries of these sizes, the squares are inf and 0."""
    grads = {"a": jnp.array([3.0 * size]), "b": jnp.array([0.0, 4.0 * size]), "empty": jnp.zeros((0, 2))}
    zeros = jax.tree.map(jnp.zeros_like, grads)
    optimizer = nigt(0.5, eps=0.0)
    updates: Any = None
    updates, state = optimizer.update(grads, optimizer.init(zeros), zeros)
    w = eval_params(state, optax.apply_updates(zeros, updates))
    np.testing.assert_allclose([w["a"][0], *w["b"]], [-0.3, 0, -0.4], rtol=1e-5)


@every_member
def test_a_weight_of_1_forgets_a_z_that_is_not_finite(factory: Callable[..., Any]):
    optimizer = factory(0.0, **({"momentum": 0.0} if factory is nigt else {"beta": 1.0}), lookahead=0.0)
    state = optimizer.init(PARAMS)
    broken = state._replace(step=state.step + 1, z=jax.tree.map(lambda z: jnp.full_like(z, jnp.inf), state.z))
    _, state = optimizer.update(PARAMS, broken, PARAMS)
    assert_equal(state.z, PARAMS)


def test_complex_parameters_are_vectors_of_two_real_numbers():
    z = jnp.array([3.0 + 4.0j, 0.0])
    optimizer = nigt(0.5, momentum=0.5)
    updates, state = optimizer.update(z, optimizer.init(z), z)
    assert_equal(updates, -z / 5, rtol=1e-6)
    assert isinstance(state, AdamPlusState)
    with pytest.raises(TypeError, match="no direction for complex parameters"):
        spectral_plus(0.1).init(z)
