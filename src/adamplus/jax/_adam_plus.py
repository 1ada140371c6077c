"""Adam⁺, Nadam⁺ and NIGT as optax transformations.

`optim/_algorithm.py` has the legend of z, ŵ, w and of the offset c = ℓ η, which leads from ŵ back to w.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from ._state import (
    AdamPlusState,
    Setting,
    Tree,
    averaged,
    check,
    decayed,
    new_scalars,
    new_z,
    now,
    required,
    scalar_dtype,
    wide,
)


def adam_plus(
    learning_rate: Setting,
    beta: Setting = 0.1,
    *,
    beta_power: float = 1.0,
    norm_power: float = 0.5,
    eps: float = 1e-8,
    lookahead: float | None = None,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = False,
    mask: Any = None,
    state_dtype: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""Adam⁺: one buffer z, and steps that are divided by a power of its norm over the whole tree.

    .. math::
        z_t &= (1-\beta) z_{t-1} + \beta g_t(\hat w_t), \qquad z_0 = g_0 \\
        \eta_t &= \alpha\beta^a / \max(\|z_t\|^p, \epsilon_0) \\
        w_{t+1} &= w_t - \eta_t z_t \\
        \hat w_{t+1} &= w_{t+1} + \ell (w_{t+1} - w_t)

    The parameters are ŵ, where gradients are taken. `eval_params(state, params)` is w, the point to evaluate and ship.
    The transformation has to be the last one of a chain, because the state must know what is added to the parameters.
    Gradients of zero count as gradients: z decays. Leaves that `optax.masked` leaves out are not touched.

    Args:
        learning_rate: α, a number, an array or a schedule.
        beta: β in (0, 1], the weight of the new gradient; a number, an array or a schedule.
        beta_power: a, the power of β in the step size.
        norm_power: p, the power of ‖z‖ that divides the step.
        eps: ε₀, the smallest value that the step is divided by.
        lookahead: ℓ, how many steps ahead of w gradients are taken. Default: the paper's 1/β − 1.
        weight_decay: λ, added to the gradient as λ ŵ, or applied to w if `decoupled_weight_decay`.
        decoupled_weight_decay: shrink w to (1 − α λ) w before the step, instead of adding λ ŵ to the gradient.
        mask: the leaves that decay: a tree of booleans, a prefix of one, or a function that makes one from the
            parameters. Default: all.
        state_dtype: dtype of z. Default: the parameter's, or float32 for 16-bit parameters.

    Example:
        >>> optimizer = adamplus.jax.adam_plus(learning_rate=0.1, beta=0.5)
        >>> params = {"w": jnp.array([4.0, 0.0])}
        >>> state = optimizer.init(params)
        >>> grads = {"w": jnp.array([4.0, 0.0])}
        >>> updates, state = optimizer.update(grads, state, params)
        >>> params = optax.apply_updates(params, updates)   # η = 0.1 · 0.5 / √4 = 0.025; ŵ = 4 − (0.025 / 0.5) · 4
        >>> params, adamplus.jax.eval_params(state, params)
        ({'w': Array([3.8, 0. ], dtype=float32)}, {'w': Array([3.8999999, 0.       ], dtype=float32)})

    References:
        Liu, Zhang, Orabona and Yang, *Adam⁺: A Stochastic Method with Adaptive Variance Reduction*, 2020.
    """
    check(learning_rate=learning_rate, beta=beta, beta_power=beta_power, norm_power=norm_power, eps=eps)
    check(weight_decay=weight_decay, **({} if lookahead is None else {"lookahead": lookahead}))

    def init(params: Tree) -> AdamPlusState:
        step, offset = new_scalars(params)
        return AdamPlusState(step, new_z(params, state_dtype), offset)

    def update(updates: Tree, state: Any, params: Tree | None = None, **_: Any) -> tuple[Tree, AdamPlusState]:
        w_hats, treedef = jax.tree.flatten(required(params, "adam_plus"))
        gs, zs = treedef.flatten_up_to(updates), treedef.flatten_up_to(state.z)
        dtype = scalar_dtype(w_hats)
        alpha, b = now(learning_rate, state.step, dtype), now(beta, state.step, dtype)
        # λ of each leaf, or None if nothing decays
        lambdas = _lambdas(weight_decay, mask, params, dtype)
        if lambdas and not decoupled_weight_decay:
            gs = [wide(g) + decay * wide(w) for g, w, decay in zip(gs, w_hats, lambdas, strict=True)]

        back = [c * wide(z) for c, z in zip(jnp.asarray(state.offset), zs, strict=True)]  # w_t − ŵ_t
        weight = jnp.where(state.step == 0, 1, b)
        zs = [averaged(z, g, weight) for z, g in zip(zs, gs, strict=True)]  # lines 5 and 10 of the paper
        eta = alpha * b ** jnp.asarray(beta_power, dtype) / _denominator(_norm(zs, dtype), norm_power, eps)  # line 7
        ahead = 1 / b - 1 if lookahead is None else jnp.asarray(lookahead, dtype)
        # The bound keeps 0 · ∞ from being NaN if ε₀ is tiny and z is 0.
        rate, offset = (jnp.minimum(x, jnp.finfo(dtype).max) for x in ((1 + ahead) * eta, ahead * eta))
        moves = [step - rate * wide(z) for step, z in zip(back, zs, strict=True)]  # lines 8 and 9: ŵ_{t+1} − ŵ_t
        if lambdas and decoupled_weight_decay:
            rows = zip(moves, w_hats, back, lambdas, strict=True)
            moves = [move - alpha * decay * (wide(w_hat) + step) for move, w_hat, step, decay in rows]

        moves = [move.astype(w_hat.dtype) for move, w_hat in zip(moves, w_hats, strict=True)]
        offsets = jnp.broadcast_to(offset, [len(zs)]).astype(state.offset.dtype)
        new = AdamPlusState(jnp.asarray(optax.safe_increment(state.step)), treedef.unflatten(zs), offsets)
        return treedef.unflatten(moves), new

    return optax.GradientTransformationExtraArgs(init, update)


def nadam_plus(
    learning_rate: Setting,
    beta: Setting = 0.1,
    *,
    beta_power: float = 4 / 3,
    norm_power: float = 2 / 3,
    eps: float = 1e-8,
    lookahead: float | None = None,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = False,
    mask: Any = None,
    state_dtype: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""Nadam⁺, power-normalized Adam⁺ (Theorem 3): `adam_plus` with p = 2/3 and a = 4/3.

    .. math::
        \eta_t = \alpha\beta^{4/3} / \max(\|z_t\|^{2/3}, \epsilon_0)

    Args:
        learning_rate: α, a number, an array or a schedule.
        beta: β in (0, 1], the weight of the new gradient; a number, an array or a schedule.
        beta_power: a, the power of β in the step size.
        norm_power: p, the power of ‖z‖ that divides the step.
        eps: ε₀, the smallest value that the step is divided by.
        lookahead: ℓ, as in `adam_plus`.
        weight_decay: λ, as in `adam_plus`.
        decoupled_weight_decay: as in `adam_plus`.
        mask: the leaves that decay, as in `adam_plus`.
        state_dtype: dtype of z, as in `adam_plus`.

    Example:
        >>> optimizer = adamplus.jax.nadam_plus(learning_rate=0.1, beta=0.125)
        >>> params = jnp.array([8.0, 0.0])
        >>> updates, state = optimizer.update(jnp.array([8.0, 0.0]), optimizer.init(params), params)
        >>> updates.round(6)                       # −8 η/β with η = 0.1 · (1/8)^(4/3) / 8^(2/3)
        Array([-0.1,  0. ], dtype=float32)

    References:
        Liu, Zhang, Orabona and Yang, *Adam⁺: A Stochastic Method with Adaptive Variance Reduction*, 2020.
    """
    return adam_plus(
        learning_rate,
        beta,
        beta_power=beta_power,
        norm_power=norm_power,
        eps=eps,
        lookahead=lookahead,
        weight_decay=weight_decay,
        decoupled_weight_decay=decoupled_weight_decay,
        mask=mask,
        state_dtype=state_dtype,
    )


def nigt(
    learning_rate: Setting,
    momentum: Setting = 0.9,
    *,
    eps: float = 1e-8,
    lookahead: float | None = None,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = False,
    mask: Any = None,
    state_dtype: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""NIGT, normalized SGD with momentum and implicit gradient transport. Every step of w has the length α.

    .. math::
        \eta_t = \alpha / \max(\|z_t\|, \epsilon_0), \qquad \beta = 1 - \text{momentum}

    Args:
        learning_rate: α, the length of a step of w; a number, an array or a schedule.
        momentum: 1 − β, in [0, 1); a number, an array or a schedule.
        eps: ε₀, the smallest value that the step is divided by.
        lookahead: ℓ, as in `adam_plus`.
        weight_decay: λ, as in `adam_plus`.
        decoupled_weight_decay: as in `adam_plus`.
        mask: the leaves that decay, as in `adam_plus`.
        state_dtype: dtype of z, as in `adam_plus`.

    Example:
        >>> optimizer = adamplus.jax.nigt(learning_rate=0.5, momentum=0.5)
        >>> params = jnp.array([4.0, 0.0])
        >>> updates, state = optimizer.update(jnp.array([4.0, 0.0]), optimizer.init(params), params)
        >>> updates                                # w is one step of 0.5 away, and ŵ is ℓ = 1 step ahead of it
        Array([-1.,  0.], dtype=float32)

    References:
        Cutkosky and Mehta, *Momentum Improves Normalized SGD*, 2020.
    """
    check(momentum=momentum)
    return adam_plus(
        learning_rate,
        _beta(momentum),
        beta_power=0.0,
        norm_power=1.0,
        eps=eps,
        lookahead=lookahead,
        weight_decay=weight_decay,
        decoupled_weight_decay=decoupled_weight_decay,
        mask=mask,
        state_dtype=state_dtype,
    )


def _beta(momentum: Any) -> Setting:
    if callable(momentum):
        schedule: Any = momentum
        return lambda step: 1 - schedule(step)
    return 1 - momentum


def _norm(zs: list[Any], dtype: Any) -> jax.Array:
    """‖z‖ over all leaves. XLA sums the squares of each shard, and then those sums: nothing is gathered.

    z is divided by its largest entry, so that squares neither overflow nor vanish.
    """
    sizes = [jnp.abs(wide(z)).astype(dtype) for z in zs]
    largest = jnp.zeros([], dtype)
    for size in sizes:
        largest = jnp.maximum(largest, jnp.max(size, initial=0))
    unit = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1)
    return unit * jnp.sqrt(sum((jnp.sum((size / unit) ** 2) for size in sizes), jnp.zeros([], dtype)))


def _denominator(norm: jax.Array, norm_power: Any, eps: Any) -> jax.Array:
    """max(‖z‖^p, ε₀). If both are 0, z is 0 and any finite η is right. If ‖z‖ is inf, η is NaN: 0 would hide it."""
    floored = jnp.maximum(norm ** jnp.asarray(norm_power, norm.dtype), jnp.asarray(eps, norm.dtype))
    return jnp.where(jnp.isinf(floored), jnp.nan, jnp.where(floored == 0, 1, floored))


def _lambdas(weight_decay: Any, mask: Any, params: Tree, dtype: Any) -> list[jax.Array]:
    """λ of each leaf, or nothing if none decays."""
    if isinstance(weight_decay, int | float) and weight_decay == 0:
        return []
    on = decayed(mask, params) if mask is not None else [True] * len(jax.tree.leaves(params))
    return [jnp.asarray(weight_decay, dtype) * jnp.asarray(m, dtype) for m in on]
