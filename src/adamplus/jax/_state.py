"""States of the transformations, and `eval_params`, which finds w in them.

The parameters hold ŵ, where gradients are taken. w = ŵ + c D(z), where the offset c was stored by the step that made ŵ,
and D(z) is z itself in the Euclidean members. Offsets are one array with an entry for each leaf of z.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from ._geometry import Geometry, direction, fingerprints
from ._routing import Routing, geometries, path_of

Array: TypeAlias = jax.Array | np.ndarray
Tree: TypeAlias = Any
Setting: TypeAlias = Any
"""A number, a 0-dim array, or a schedule: a function of the step count."""

RULES: dict[str, tuple[Callable[[float], bool], str]] = {
    "learning_rate": (lambda x: 0 <= x < math.inf, "finite and at least 0"),
    "beta": (lambda x: 0 < x <= 1, "in (0, 1]"),
    "momentum": (lambda x: 0 <= x < 1, "in [0, 1)"),
    "beta_power": (lambda x: 0 <= x < math.inf, "finite and at least 0"),
    "norm_power": (lambda x: 0 <= x <= 1, "in [0, 1]"),
    "eps": (lambda x: 0 <= x < math.inf, "finite and at least 0"),
    "lookahead": (lambda x: 0 <= x < math.inf, "finite and at least 0, or None"),
    "weight_decay": (lambda x: 0 <= x < math.inf, "finite and at least 0"),
}


class AdamPlusState(NamedTuple):
    """State of `adam_plus`, `nadam_plus` and `nigt`."""

    step: Array
    """Number of steps taken, int32."""
    z: Tree
    """Moving average of gradients, a tree like the parameters."""
    offset: Array
    """c in w = ŵ + c z, an entry for each leaf of z."""


class SpectralPlusState(NamedTuple):
    """State of `spectral_plus`."""

    step: Array
    """Number of steps taken, int32."""
    z: Tree
    """Moving average of gradients, a tree like the parameters."""
    offset: Array
    """c in w = ŵ + c D(z), an entry for each leaf of z. The scale of the geometry is part of it."""
    layout: Array
    """Fingerprint of the geometry that D has for each leaf of z."""


def eval_params(state: Any, params: Tree, geometry: Routing | None = None) -> Tree:
    r"""w, the parameters to evaluate and to ship. The parameters that are trained hold ŵ.

    .. math:: w = \hat w + c\, D(z)

    Args:
        state: state of a member of the family, or of `optax.chain`, `inject_hyperparams`, `masked`, `multi_transform`,
            `MultiSteps` and the like that contain it. Parameters that no member trains are returned as they are.
        params: the parameters that the last update was applied to.
        geometry: the argument of the same name that `spectral_plus` had, if it had one. Another one is an error, and in
            compiled code, which cannot raise, the result is NaN.

    Example:
        >>> optimizer = adamplus.jax.nigt(learning_rate=0.5)
        >>> params = {"w": jnp.array([4.0, 0.0])}
        >>> state = optimizer.init(params)
        >>> updates, state = optimizer.update({"w": jnp.array([4.0, 0.0])}, state, params)
        >>> params = optax.apply_updates(params, updates)
        >>> adamplus.jax.eval_params(state, params)        # a step of 0.5, whatever the gradient's length
        {'w': Array([3.5, 0. ], dtype=float32)}
    """
    kinds = (AdamPlusState, SpectralPlusState)
    found = [x for x in jax.tree.leaves(state, is_leaf=lambda x: isinstance(x, kinds)) if isinstance(x, kinds)]
    if not found:
        raise ValueError(
            f"the state has no {' and no '.join(kind.__name__ for kind in kinds)}, got {type(state).__name__}: pass "
            "the state of a transformation that contains a member of the family"
        )
    shifts: dict[str, int] = {}
    for one in found:
        for path, _ in jax.tree_util.tree_flatten_with_path(one.z)[0]:
            name = jax.tree_util.keystr(path)
            shifts[name] = shifts.get(name, 0) + 1
    if twice := [name for name, times in shifts.items() if times > 1]:
        raise ValueError(f"params{twice[0]} is trained by {shifts[twice[0]]} members, so no state has its w: use one")
    for one in found:
        params = _evaluated(one, params, geometry)
    return params


def _evaluated(state: AdamPlusState | SpectralPlusState, params: Tree, geometry: Routing | None) -> Tree:
    zs, treedef = jax.tree.flatten(state.z)
    offset = state.offset
    if isinstance(state, SpectralPlusState):
        kinds = geometries(state.z, geometry)
        offset = trusted(state, kinds)
        zs = [direction(z, kind) for z, kind in zip(zs, kinds, strict=True)]
    shift = jax.tree.unflatten(treedef, [c * wide(z) for c, z in zip(offset, zs, strict=True)])

    def shifted(by: Any, w_hat: Any) -> Any:
        return w_hat if isinstance(by, optax.MaskedNode) else (wide(w_hat) + by).astype(w_hat.dtype)

    return jax.tree.map(shifted, shift, params, is_leaf=lambda x: isinstance(x, optax.MaskedNode))


def trusted(state: SpectralPlusState, kinds: list[Geometry]) -> jax.Array:
    """Offsets. Raise if the state was made for another geometry than this one of each leaf.

    Compiled code cannot raise. There the offsets are NaN, because a wrong w must not pass unnoticed.
    """
    known = fingerprints(kinds)
    if not isinstance(state.layout, Tracer):
        paths = [path_of(path) for path, _ in jax.tree_util.tree_flatten_with_path(state.z)[0]]
        is_other = np.asarray(state.layout) != known
        if others := [path for path, other in zip(paths, is_other, strict=True) if other]:
            raise ValueError(
                f"the geometry of {', '.join(others)} differs from the one that the state was made with: pass the "
                "geometry that spectral_plus had"
            )
    return jnp.where(jnp.asarray(state.layout) == known, state.offset, jnp.nan)


def check(**settings: Any) -> None:
    """Raise for numbers outside of their ranges. Arrays and schedules are not read."""
    for name, value in settings.items():
        allowed, words = RULES[name]
        if isinstance(value, bool | str | complex):
            raise TypeError(f"{name} must be a number, an array or a schedule, got {value!r}")
        if isinstance(value, int | float) and not allowed(value):
            raise ValueError(f"{name} must be {words}, got {value}")


def now(setting: Setting, step: Array, dtype: Any) -> jax.Array:
    """Value of a setting in this step."""
    return jnp.asarray(setting(step) if callable(setting) else setting, dtype)


def new_z(params: Tree, state_dtype: Any) -> Tree:
    """Zeros for z, in `state_dtype` or else in the parameter's dtype, but float32 for 16-bit parameters."""

    def zeros(p: Any) -> jax.Array:
        if not jnp.issubdtype(p.dtype, jnp.inexact):
            raise TypeError(f"a parameter is {p.dtype}, which no step can move: leave it out by optax.masked")
        if state_dtype is not None and jnp.iscomplexobj(p):
            raise TypeError(f"state_dtype={state_dtype} for a {p.dtype} parameter: leave it None")
        return jnp.zeros_like(p, dtype=state_dtype or _wide_dtype(p))

    return jax.tree.map(zeros, params)


def home(params: Tree, ndim: int) -> NamedSharding | None:
    """Where small arrays of the state are before the first step: on all devices of the mesh that the parameters are on.

    On one device, the second step would be compiled again, because the first returns them on all.
    """
    leaves = [p for p in jax.tree.leaves(params) if isinstance(p, jax.Array) and not isinstance(p, Tracer)]
    mesh = next((p.sharding.mesh for p in leaves if isinstance(p.sharding, NamedSharding)), None)
    if mesh is None:
        return None
    # This is how JAX writes "replicated" in results: equal shardings that are written otherwise are compiled again.
    is_explicit = AxisType.Explicit in mesh.axis_types
    return NamedSharding(mesh, PartitionSpec(*[None] * ndim) if is_explicit else PartitionSpec())


def new_scalars(params: Tree) -> tuple[jax.Array, jax.Array]:
    """Step count and offsets before the first step."""
    leaves = jax.tree.leaves(params)
    step = jnp.zeros([], jnp.int32, device=home(params, 0))
    return step, jnp.zeros([len(leaves)], scalar_dtype(leaves), device=home(params, 1))


def scalar_dtype(leaves: list[Any]) -> Any:
    """Dtype of η, offsets and norms: float64 if a leaf is, else float32."""
    return jnp.finfo(jnp.result_type(jnp.float32, *leaves)).dtype


def wide(x: Any) -> jax.Array:
    """The values in at least float32."""
    return jnp.asarray(x).astype(_wide_dtype(x))


def _wide_dtype(x: Any) -> Any:
    return jnp.result_type(x, jnp.float32)


def averaged(z: Any, g: Any, weight: jax.Array) -> jax.Array:
    """z_t = (1 − weight) z_{t−1} + weight g_t, in at least float32 and rounded to the dtype of z.

    With a weight of 1 it is g_t even if z_{t−1} is not finite, as in torch.
    """
    return jnp.where(weight == 1, wide(g), (1 - weight) * wide(z) + weight * wide(g)).astype(z.dtype)


def decayed(mask: Any, params: Tree) -> list[bool]:
    """Whether weight decay applies to each leaf, by a mask as optax has it: a tree, a prefix of one, or a function."""
    tree = mask(params) if callable(mask) else mask
    return jax.tree.leaves(jax.tree.map(lambda m, part: jax.tree.map(lambda _: m, part), tree, params))


def required(params: Tree, name: str) -> Tree:
    """The parameters. Raise if `update` was called without them."""
    if params is None:
        raise ValueError(f"{name} needs the parameters: call update(grads, state, params)")
    return params
