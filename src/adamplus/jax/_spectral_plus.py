"""SpectralPlus as an optax transformation: Adam⁺ with a direction D(z) in place of z, and no norm to divide by."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from ._geometry import Spectral, direction, fingerprints
from ._routing import Routing, geometries
from ._state import (
    Setting,
    SpectralPlusState,
    Tree,
    averaged,
    check,
    decayed,
    home,
    new_scalars,
    new_z,
    now,
    required,
    scalar_dtype,
    trusted,
    wide,
)


def spectral_plus(
    learning_rate: Setting,
    beta: Setting = 0.05,
    *,
    lookahead: float | None = 1.0,
    weight_decay: float = 0.1,
    mask: Any = None,
    geometry: Routing | None = None,
    state_dtype: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""SpectralPlus: gradients ahead of w, one buffer z, and steps of steepest descent in a norm per layer.

    .. math::
        z_t &= (1-\beta) z_{t-1} + \beta g_t(\hat w_t), \qquad z_0 = g_0 \\
        w_{t+1} &= (1 - \text{lr} \lambda) w_t - \text{lr} D(z_t) \\
        \hat w_{t+1} &= w_{t+1} - \ell \, \text{lr} D(z_t)

    Hidden matrices take spectral steps, D = s √(d_out/d_in) U Vᵀ where z = U Σ Vᵀ, and everything else (embeddings,
    output heads, vectors) takes sign steps, D = s sign(z). `default_geometry` says which leaf is which.

    The parameters are ŵ, where gradients are taken. `eval_params(state, params)` is w, the point to evaluate and ship.
    The transformation has to be the last one of a chain. Each step computes D twice, of the last z to undo the last
    extrapolation and of the new one. With lookahead=0, it computes D once.

    Args:
        learning_rate: the size of a step, a number, an array or a schedule. 0.02 is a good start.
        beta: β in (0, 1], the weight of the new gradient; a number, an array or a schedule.
        lookahead: ℓ, how many steps ahead of w gradients are taken. 0 takes them at w. None is Adam⁺'s 1/β − 1.
        weight_decay: λ. Each step shrinks w to (1 − lr·λ) w, and this is not extrapolated.
        mask: the leaves that decay: a tree of booleans, a prefix of one, or a function that makes one from the
            parameters. Default: those that take spectral steps.
        geometry: `Spectral(…)` or `Sign(…)` for each leaf: a function of its path and the leaf, or a tree like the
            parameters, or a prefix of one. Pass it to `eval_params`, too. Default: `default_geometry`. A state of
            another geometry is an error in `update`, and gives NaN in compiled code, which cannot raise.
        state_dtype: dtype of z. Default: the parameter's, or float32 for 16-bit parameters.

    Example:
        >>> optimizer = adamplus.jax.spectral_plus(learning_rate=0.5, weight_decay=0.0)
        >>> params = {"kernel": jnp.array([[3.0, 0.0], [0.0, 2.0]])}
        >>> grads = {"kernel": jnp.array([[0.0, 7.0], [-0.1, 0.0]])}
        >>> updates, state = optimizer.update(grads, optimizer.init(params), params)
        >>> updates["kernel"].round(4)           # U Vᵀ has singular values of 1 instead of 7 and 0.1
        Array([[ 0., -1.],
               [ 1.,  0.]], dtype=float32)

    References:
        Pethick, Xie, Antonakopoulos, Zhu, Silveti-Falls and Cevher, *Training Deep Learning Models with
        Norm-Constrained LMOs* (Scion), 2025, whose directions these are.

        Jordan et al., *Muon: An optimizer for hidden layers in neural networks*, 2024.
    """
    check(learning_rate=learning_rate, beta=beta, weight_decay=weight_decay)
    check(**({} if lookahead is None else {"lookahead": lookahead}))

    def init(params: Tree) -> SpectralPlusState:
        step, offset = new_scalars(params)
        layout = jnp.asarray(fingerprints(geometries(params, geometry)), device=home(params, 1))
        return SpectralPlusState(step, new_z(params, state_dtype), offset, layout)

    def update(updates: Tree, state: Any, params: Tree | None = None, **_: Any) -> tuple[Tree, SpectralPlusState]:
        w_hats, treedef = jax.tree.flatten(required(params, "spectral_plus"))
        gs, zs = treedef.flatten_up_to(updates), treedef.flatten_up_to(state.z)
        kinds = geometries(params, geometry)
        dtype = scalar_dtype(w_hats)
        lr, b = now(learning_rate, state.step, dtype), now(beta, state.step, dtype)
        ahead = 1 / b - 1 if lookahead is None else jnp.asarray(lookahead, dtype)
        on = decayed(mask, params) if mask is not None else [isinstance(kind, Spectral) for kind in kinds]
        decays = [lr * jnp.asarray(weight_decay, dtype) * jnp.asarray(m, dtype) for m in on]
        scales = jnp.asarray([kind.scale for kind in kinds], dtype)

        offset = trusted(state, kinds)

        def shifts() -> list[jax.Array]:  # w_t − ŵ_t = c_{t−1} D(z_{t−1})
            return [c * wide(direction(z, kind)) for c, z, kind in zip(offset, zs, kinds, strict=True)]

        if isinstance(lookahead, int | float) and lookahead == 0:  # then only a step of other settings was ahead of w
            back = jax.lax.cond(jnp.any(offset != 0), shifts, lambda: [jnp.zeros_like(wide(z)) for z in zs])
        else:
            back = shifts()
        weight = jnp.where(state.step == 0, 1, b)
        zs = [averaged(z, g, weight) for z, g in zip(zs, gs, strict=True)]
        moves = []  # ŵ_{t+1} − ŵ_t
        for z, kind, s, step, w_hat, decay in zip(zs, kinds, scales, back, w_hats, decays, strict=True):
            shrunk = step - decay * (wide(w_hat) + step)
            moves.append((shrunk - (1 + ahead) * lr * s * wide(direction(z, kind))).astype(w_hat.dtype))
        new = SpectralPlusState(
            jnp.asarray(optax.safe_increment(state.step)),
            treedef.unflatten(zs),
            (ahead * lr * scales).astype(state.offset.dtype),
            state.layout,
        )
        return treedef.unflatten(moves), new

    return optax.GradientTransformationExtraArgs(init, update)
