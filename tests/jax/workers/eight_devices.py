"""Runs of the members on a mesh of eight devices, beside the run on one: prints what tests/jax/test_devices.py claims.

The process needs XLA_FLAGS=--xla_force_host_platform_device_count=8.
"""

import re
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
STEPS = 20


def start() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape) for name, shape in SHAPES.items()}


def collectives(compiled: Any) -> str:
    """What the compiled step sends: the kinds of its collectives with the shapes of their results."""
    kinds = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
    found = re.findall(rf"= \(?(\w+\[[\d,]*\]).* ({kinds})(?:-start)?\(", compiled.as_text())
    return ", ".join(sorted({f"{kind} of {shape}" for shape, kind in found})) or "none"


def step_of(optimizer: Any) -> Any:
    def step(params: Any, state: Any, noise: Any) -> Any:
        grads = jax.tree.map(lambda p, n: p - 0.5 * jnp.sin(p) + n, params, noise)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    return jax.jit(step)


def run(optimizer: Any, step: Any, place: Any) -> tuple[Any, Any]:
    """Parameters and state after all steps. `place` puts arrays onto devices."""
    random = np.random.default_rng(1)
    params = place(start())
    state = optimizer.init(params)
    for _ in range(STEPS):
        params, state = step(params, state, place({k: random.standard_normal(s) for k, s in SHAPES.items()}))
    return params, state


def error(found: Any, right: Any) -> float:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(right), strict=True)
    return max(float(np.linalg.norm(np.asarray(a) - np.asarray(b)) / np.linalg.norm(b)) for a, b in pairs)


def main() -> None:
    """Print every claim."""
    assert len(jax.devices()) == 8
    for member, factory in MEMBERS.items():
        optimizer = factory(optax.linear_schedule(0.1, 0.05, STEPS), weight_decay=0.1)
        alone = run(optimizer, step_of(optimizer), lambda tree: jax.tree.map(jnp.asarray, tree))
        for layout, (axes, specs) in LAYOUTS.items():
            mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=axes)
            shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
            step = step_of(optimizer)
            params, state = run(optimizer, step, lambda tree, to=shardings: jax.device_put(tree, to))
            found, right = (params, eval_params(state, params)), (alone[0], eval_params(alone[1], alone[0]))
            print(f"{member}, {layout}, error: {error(found, right)}")
            print(f"{member}, {layout}, compilations: {step._cache_size()}")
            same = all(
                x[name].sharding.is_equivalent_to(shardings[name], x[name].ndim)
                for name in SHAPES
                for x in (params, state.z)
            )
            print(f"{member}, {layout}, shardings: {'equal' if same else 'different'}")
            if member == "adam_plus":
                compiled = jax.jit(optimizer.update).lower(params, state, params).compile()
                print(f"{member}, {layout}, collectives: {collectives(compiled)}")

    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    columns, rows = NamedSharding(mesh, P(None, "x")), NamedSharding(mesh, P("x"))
    params = {"up": jax.device_put(start()["up"], columns), "down": jax.device_put(start()["down"], rows)}
    optimizer = spectral_plus(0.1)
    compiled = jax.jit(optimizer.update).lower(params, optimizer.init(params), params).compile()
    print(f"spectral_plus, longer side, collectives: {collectives(compiled)}")
    everywhere = NamedSharding(mesh, P())
    gather = jax.jit(lambda x: jax.lax.with_sharding_constraint(x, everywhere)).lower(params["up"]).compile()
    print(f"a gather, collectives: {collectives(gather)}")


if __name__ == "__main__":
    with jax.enable_x64(True):
        main()
