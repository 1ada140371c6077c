"""Runs of the members in JAX beside torch's references, on the same problem: what the tests of `adamplus.jax` share."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch

import adamplus
from adamplus.jax import adam_plus, eval_params, nadam_plus, nigt

Arrays = dict[str, np.ndarray]
EUCLIDEAN: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "adam_plus": (adam_plus, {}),
    "nadam_plus": (nadam_plus, {"beta_power": 4 / 3, "norm_power": 2 / 3}),
    "nigt": (nigt, {"beta_power": 0.0, "norm_power": 1.0}),
}
"""Each member, and the settings by which the reference is that member."""


def start(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> Arrays:
    """Parameters to begin with."""
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(shape) for name, shape in shapes.items()}


def noises(params: Arrays, steps: int, silent: tuple[int, ...] = (), seed: int = 1) -> Arrays:
    """Noise of the gradients in each step. In `silent` steps all gradients are zero, which NaN marks here."""
    random = np.random.default_rng(seed)
    found = {name: random.standard_normal((steps, *p.shape)) for name, p in params.items()}
    for noise in found.values():
        noise[list(silent)] = np.nan
    return found


def gradient(p: Any, noise: Any, numbers: Any) -> Any:
    """Gradient of ½ ‖p‖² + cos p, and noise: the same function for numpy and for jax.numpy."""
    return numbers.where(numbers.isnan(noise), 0.0, p - numbers.sin(p) + noise)


def jax_run(optimizer: Any, params: Arrays, noise: Arrays, geometry: Any = None) -> tuple[Arrays, Arrays]:
    """ŵ and w after all steps of a compiled run."""

    @jax.jit
    def run(params: Any, noise: Any) -> Any:
        def step(carry: Any, noise: Any) -> Any:
            params, state = carry
            grads = jax.tree.map(lambda p, n: gradient(p, n, jnp), params, noise)
            updates, state = optimizer.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), None

        (params, state), _ = jax.lax.scan(step, (params, optimizer.init(params)), noise)
        return params, eval_params(state, params, geometry)

    w_hat, w = run(jax.tree.map(jnp.asarray, params), jax.tree.map(jnp.asarray, noise))
    return jax.tree.map(np.asarray, w_hat), jax.tree.map(np.asarray, w)


def torch_run(
    params: Arrays,
    noise: Arrays,
    groups: list[tuple[list[str], dict[str, Any]]],
    settings: Callable[[int], dict[str, float]],
    reference: Any = adamplus.AdamPlusReference,
) -> tuple[Arrays, Arrays]:
    """ŵ and w of the reference after the same steps. Groups are names of parameters and what differs for them."""
    held = {name: torch.nn.Parameter(torch.from_numpy(p.copy())) for name, p in params.items()}
    optimizer = reference([{"params": [held[name] for name in names], **own} for names, own in groups], lr=0.0)
    steps = len(next(iter(noise.values())))
    for t in range(steps):
        for group in optimizer.param_groups:
            group.update(settings(t))
        for name, p in held.items():
            p.grad = torch.from_numpy(gradient(p.detach().numpy(), noise[name][t], np))
        optimizer.step()
    state = optimizer.state
    return tuple({name: state[p][key].numpy() for name, p in held.items()} for key in ("w_hat", "w"))  # type: ignore


def error(found: tuple[Arrays, Arrays], right: tuple[Arrays, Arrays]) -> float:
    """Largest difference of ŵ and w, relative to the norm of each array."""
    return max(
        float(np.linalg.norm(a[name].reshape(x.shape) - x) / np.linalg.norm(x))
        for a, b in zip(found, right, strict=True)
        for name, x in b.items()
        if x.size
    )
