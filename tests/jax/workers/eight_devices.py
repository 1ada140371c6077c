"""Runs of the members on a mesh of eight devices, beside the run on one: prints what tests/jax/test_devices.py claims.

The process needs XLA_FLAGS=--xla_force_host_platform_device_count=8.
"""

import re
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from adamplus.jax import adam_plus, eval_params, spectral_plus

MEMBERS = {"adam_plus": adam_plus, "spectral_plus": spectral_plus}
SHAPES = {"up": (8, 32), "down": (32, 8), "bias": (32,), "scale": ()}
AUTO, EXPLICIT = (AxisType.Auto,) * 2, (AxisType.Explicit,) * 2
LAYOUTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "data parallel": (AUTO, {name: P() for name in SHAPES}),
    "fully sharded": (AUTO, {"up": P(("x", "y")), "down": P(("x", "y")), "bias": P(("x", "y")), "scale": P()}),
    "tensor parallel": (AUTO, {"up": P("y", "x"), "down": P("x", "y"), "bias": P("x"), "scale": P()}),
    "explicit axes": (EXPLICIT, {"up": P("y", "x"), "down": P("x", "y"), "bias": P("x"), "scale": P()}),
}
QUICK = {"adam_plus": ["fully sharded", "explicit axes"], "spectral_plus": ["tensor parallel"]}
STEPS = 10


def start() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape) for name, shape in SHAPES.items()}


def collectives(compiled: Any) -> str:
    """What the compiled step sends: the kinds of its collectives with the shapes of their results."""
    kinds = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
    found = re.findall(rf"= \(?(\w+\[[\d,]*\]).* ({kinds})(?:-start)?\(", compiled.as_text())
    return ", ".join(sorted({f"{kind} of {shape}" for shape, kind in found})) or "none"


def optimized(lowered: Any) -> Any:
    """The step as it is compiled for users. The runs themselves are compiled with few optimizations, to save time."""
    jax.config.update("jax_disable_most_optimizations", False)
    compiled = lowered.compile()
    jax.config.update("jax_disable_most_optimizations", True)
    return compiled


def loss(params: Any, x: jax.Array) -> jax.Array:
    """Squared error of a small network that is to return its inputs."""
    hidden = jnp.tanh(x @ params["up"] + params["bias"]) * params["scale"]
    return jnp.mean((hidden @ params["down"] - x) ** 2)


def penalty(params: Any, x: jax.Array) -> jax.Array:
    """A loss without products, which need no sharding of their results if axes are explicit."""
    return sum((jnp.sum((p - 0.5 - jnp.mean(x)) ** 2) for p in params.values()), jnp.zeros([]))


def step_of(optimizer: Any, explicit: bool) -> Any:
    def step(params: Any, state: Any, x: jax.Array) -> Any:
        grads = jax.grad(penalty if explicit else loss)(params, x)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    return jax.jit(step)


def run(optimizer: Any, step: Any, place: Any, place_batch: Any) -> tuple[Any, Any]:
    """Parameters and state after all steps. `place` puts parameters onto devices, `place_batch` a batch."""
    random = np.random.default_rng(1)
    params = place(start())
    state = optimizer.init(params)
    for _ in range(STEPS):
        params, state = step(params, state, place_batch(random.standard_normal((16, 8))))
    return params, state


def error(found: Any, right: Any) -> float:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(right), strict=True)
    return max(float(np.linalg.norm(np.asarray(a) - np.asarray(b)) / np.linalg.norm(b)) for a, b in pairs)


def main() -> None:
    """Print every claim."""
    assert len(jax.devices()) == 8
    for member, factory in MEMBERS.items():
        optimizer = factory(optax.linear_schedule(0.1, 0.05, STEPS), weight_decay=0.1)
        alone: dict[bool, Any] = {}
        for layout in QUICK[member] if "--quick" in sys.argv else LAYOUTS:
            axes, specs = LAYOUTS[layout]
            mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=axes)
            shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
            is_explicit = axes is EXPLICIT
            if is_explicit not in alone:
                on_one = (lambda tree: jax.tree.map(jnp.asarray, tree),) * 2
                alone[is_explicit] = run(optimizer, step_of(optimizer, is_explicit), *on_one)
            right_params, right_state = alone[is_explicit]
            step = step_of(optimizer, is_explicit)
            batch = NamedSharding(mesh, P() if layout == "tensor parallel" else P(("x", "y")))
            places = [lambda value, to=to: jax.device_put(value, to) for to in (shardings, batch)]
            params, state = run(optimizer, step, *places)
            found, right = (params, eval_params(state, params)), (right_params, eval_params(right_state, right_params))
            print(f"{member}, {layout}, error: {error(found, right)}")
            print(f"{member}, {layout}, compilations: {step._cache_size()}")
            same = all(
                x[name].sharding.is_equivalent_to(shardings[name], x[name].ndim)
                for name in SHAPES
                for x in (params, state.z)
            )
            print(f"{member}, {layout}, shardings: {'equal' if same else 'different'}")
            if member == "adam_plus":
                compiled = optimized(jax.jit(optimizer.update).lower(params, state, params))
                print(f"{member}, {layout}, collectives: {collectives(compiled)}")

    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    columns, rows = NamedSharding(mesh, P(None, "x")), NamedSharding(mesh, P("x"))
    params = {"up": jax.device_put(start()["up"], columns), "down": jax.device_put(start()["down"], rows)}
    optimizer = spectral_plus(0.1)
    compiled = optimized(jax.jit(optimizer.update).lower(params, optimizer.init(params), params))
    print(f"spectral_plus, longer side, collectives: {collectives(compiled)}")
    everywhere = NamedSharding(mesh, P())
    gather = jax.jit(lambda x: jax.lax.with_sharding_constraint(x, everywhere)).lower(params["up"])
    print(f"a gather, collectives: {collectives(optimized(gather))}")


if __name__ == "__main__":
    jax.config.update("jax_disable_most_optimizations", True)
    with jax.enable_x64(True):
        main()
