"""Train a small GPT on a mesh of 8 devices with SpectralPlus in JAX: batches over one axis, matrices over both.

    python examples/jax_gpt_sharded.py              # on a CPU, which JAX divides into 8 devices
    python examples/jax_gpt_sharded.py --mesh 2 4   # on 8 GPUs or TPU cores, if JAX finds them

The text is the manual in Python's `pydoc_data.topics`, byte by byte, so nothing is downloaded. Equal matrices
of all layers are one array, so that the compiled program does not grow with the number of layers. At the end, the run
is saved by orbax, restored onto the mesh, and evaluated at w.
"""

import argparse
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # before jax starts; of CPUs only

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from adamplus.jax import Geometry, Sign, Spectral, eval_params, spectral_plus

Params = dict[str, jax.Array]
BYTES = 256

# Matrices of layers are (layer, d_in, d_out). "model" cuts them as in tensor parallelism, and "data" as in FSDP.
SHARDINGS = {
    "embedding": P(None, "model"),
    "positions": P(None, "model"),
    "qkv": P(None, "data", "model"),
    "out": P(None, "model", "data"),
    "up": P(None, "data", "model"),
    "down": P(None, "model", "data"),
    "norms": P(),
    "head": P(None, "model"),
}


def geometry(path: str, leaf: Any) -> Geometry:
    """Geometry of each leaf: stacks of matrices for the layers, and signs for embeddings, norms and the head."""
    if path in ("qkv", "out", "up", "down"):
        return Spectral(batch=0, blocks=3 if path == "qkv" else 1)
    return Sign()


def start(layers: int, width: int, context: int) -> Params:
    """Random parameters."""
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    keys = iter(jax.random.split(jax.random.key(0), 8))
    params = {
        name: jax.random.normal(next(keys), (layers, *shape)) / math.sqrt(shape[0]) for name, shape in shapes.items()
    }
    params["embedding"] = 0.02 * jax.random.normal(next(keys), (BYTES, width))
    params["positions"] = 0.02 * jax.random.normal(next(keys), (context, width))
    params["head"] = jnp.zeros((width, BYTES))
    params["norms"] = jnp.ones((layers, 2, width))
    return params


def normalized(x: jax.Array) -> jax.Array:
    """RMSNorm without a gain."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def logits_of(params: Params, tokens: jax.Array, heads: int) -> jax.Array:
    """Logits of the next byte at every position."""

    def layer(x: jax.Array, own: Params) -> tuple[jax.Array, None]:
        batch, length, _ = x.shape
        packed = (normalized(x) * own["norms"][0]) @ own["qkv"]
        q, k, v = (part.reshape(batch, length, heads, -1) for part in jnp.split(packed, 3, axis=-1))
        attended = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + attended.reshape(x.shape) @ own["out"]
        x = x + jax.nn.gelu((normalized(x) * own["norms"][1]) @ own["up"]) @ own["down"]
        return x, None

    x = params["embedding"][tokens] + params["positions"][: tokens.shape[1]]
    x, _ = jax.lax.scan(layer, x, {name: params[name] for name in ("qkv", "out", "up", "down", "norms")})
    return normalized(x) @ params["head"]


def windows(text: np.ndarray, batch: int, context: int, random: np.random.Generator) -> np.ndarray:
    """Random windows of a text, one byte longer than the context."""
    starts = random.integers(0, len(text) - context - 1, batch)
    return text[starts[:, None] + np.arange(context + 1)]


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, save, restore and evaluate at w. Return the validation loss in nats per byte."""
    parser = argparse.ArgumentParser(description="Train a small GPT on a mesh of devices with SpectralPlus in JAX.")
    parser.add_argument(
        "--mesh", type=int, nargs=2, default=[4, 2], help="sizes of the axes data and model [default: 4 2]"
    )
    for name, default in {"layers": 2, "width": 64, "heads": 2, "context": 64, "batch": 16, "steps": 200}.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"[default: {default}]")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate [default: 0.05]")
    options = parser.parse_args(arguments)

    mesh: Mesh = jax.make_mesh(tuple(options.mesh), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    shardings = {name: NamedSharding(mesh, spec) for name, spec in SHARDINGS.items()}
    params = jax.device_put(start(options.layers, options.width, options.context), shardings)
    schedule = optax.warmup_cosine_decay_schedule(0.0, options.lr, options.steps // 10, options.steps, options.lr / 10)
    optimizer = spectral_plus(schedule, geometry=geometry)
    state = optimizer.init(params)  # z is sharded as the parameters are

    def loss(params: Params, tokens: jax.Array) -> jax.Array:
        logits = logits_of(params, tokens[:, :-1], options.heads)
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    def update(params: Params, state: Any, tokens: jax.Array) -> tuple[Params, Any, jax.Array]:
        value, grads = jax.value_and_grad(loss)(params, tokens)
        updates, state = optimizer.update(grads, state, params)
        return jax.lax.with_sharding_constraint(optax.apply_updates(params, updates), shardings), state, value

    step, evaluate = jax.jit(update, donate_argnums=(0, 1)), jax.jit(loss)
    text = np.frombuffer("".join(topics[name] for name in sorted(topics)).encode(), np.uint8).astype(np.int32)
    training, validation = text[: -len(text) // 10], text[-len(text) // 10 :]
    random, over_data = np.random.default_rng(0), NamedSharding(mesh, P("data"))
    for t in range(options.steps):
        tokens = jax.device_put(windows(training, options.batch, options.context, random), over_data)
        params, state, value = step(params, state, tokens)
        if (t + 1) % max(1, options.steps // 5) == 0:
            print(f"step {t + 1}: training loss {float(value):.3f}", flush=True)

    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as checkpointer:
        path = Path(folder) / "checkpoint"
        checkpointer.save(path, {"params": params, "state": state})
        checkpointer.wait_until_finished()
        like = jax.tree.map(ocp.utils.to_shape_dtype_struct, {"params": params, "state": state})
        restored = checkpointer.restore(path, like)

    w = eval_params(restored["state"], restored["params"], geometry)
    held_out = jax.device_put(windows(validation, 8 * options.batch, options.context, random), over_data)
    at_w, at_w_hat = float(evaluate(w, held_out)), float(evaluate(restored["params"], held_out))
    print(f"{mesh.size} devices, validation loss at w {at_w:.3f}, at ŵ {at_w_hat:.3f} nats per byte")
    return at_w


if __name__ == "__main__":
    main()
