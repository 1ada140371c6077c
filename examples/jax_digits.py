"""Train a Flax NNX network on scikit-learn's handwritten digits with Adam⁺ in JAX, and evaluate it at w.

    python examples/jax_digits.py                             # Adam⁺
    python examples/jax_digits.py --optimizer spectral_plus   # or nadam_plus, nigt

It needs jax, optax, flax and scikit-learn, and takes some seconds on a CPU.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

from adamplus.jax import Geometry, Sign, adam_plus, default_geometry, eval_params, nadam_plus, nigt, spectral_plus

VALIDATION = 360


class Network(nnx.Module):
    """Two hidden layers."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(64, width, rngs=rngs)
        self.second = nnx.Linear(width, width, rngs=rngs)
        self.last = nnx.Linear(width, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Logits of each image."""
        return self.last(nnx.relu(self.second(nnx.relu(self.first(x)))))


def geometry(path: str, leaf: Any) -> Geometry | str:
    """Geometry of each leaf for spectral_plus: the last layer is the output head."""
    return Sign() if path.startswith("last/") else default_geometry(path, leaf)


def optimizer_of(name: str, rate: float, steps: int) -> optax.GradientTransformationExtraArgs:
    """The optimizer. The rate falls to a tenth, and gradients are clipped: members are the last of their chain."""
    members: dict[str, Any] = {"adam_plus": adam_plus, "nadam_plus": nadam_plus, "nigt": nigt}
    schedule = optax.cosine_decay_schedule(rate, steps, alpha=0.1)
    own = spectral_plus(schedule, geometry=geometry) if name == "spectral_plus" else members[name](schedule)
    return optax.chain(optax.clip_by_global_norm(5.0), own)


def batches(x: np.ndarray, y: np.ndarray, size: int, epochs: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Shuffled batches of all epochs."""
    random = np.random.default_rng(0)
    for _ in range(epochs):
        order = random.permutation(len(x))
        for i in range(0, len(x) - size + 1, size):
            yield x[order[i : i + size]], y[order[i : i + size]]


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, print the accuracy at w and at ŵ, and return the one at w."""
    parser = argparse.ArgumentParser(description="Train a network on digits with Adam⁺ in JAX.")
    parser.add_argument(
        "--optimizer", choices=["adam_plus", "nadam_plus", "nigt", "spectral_plus"], default="adam_plus"
    )
    rates = {"adam_plus": 3.0, "nadam_plus": 6.0, "nigt": 0.1, "spectral_plus": 0.02}
    parser.add_argument("--lr", type=float, help=f"learning rate [default: {rates}]")
    parser.add_argument("--epochs", type=int, default=15, help="passes over the images [default: 15]")
    parser.add_argument("--width", type=int, default=128, help="width of the hidden layers [default: 128]")
    parser.add_argument("--batch", type=int, default=64, help="images per step [default: 64]")
    options = parser.parse_args(arguments)

    digits: Any = load_digits()
    images, labels = (digits.data / 16).astype(np.float32), digits.target
    x, y = images[VALIDATION:], labels[VALIDATION:]
    graph, params = nnx.split(Network(options.width, nnx.Rngs(0)), nnx.Param)
    steps = options.epochs * (len(x) // options.batch)
    optimizer = optimizer_of(options.optimizer, options.lr or rates[options.optimizer], steps)
    state = optimizer.init(params)

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        logits = nnx.merge(graph, params)(x)
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def step(params: Any, state: Any, x: jax.Array, y: jax.Array) -> tuple[Any, Any, jax.Array]:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    @jax.jit
    def accuracy(params: Any) -> jax.Array:
        logits = nnx.merge(graph, params)(images[:VALIDATION])
        return jnp.mean(logits.argmax(-1) == labels[:VALIDATION])

    value = jnp.zeros([])
    for batch in batches(x, y, options.batch, options.epochs):
        params, state, value = step(params, state, *batch)
    at_w = float(accuracy(eval_params(state, params, geometry)))
    print(f"{options.optimizer}: {steps} steps, training loss {float(value):.4f}")
    print(f"validation accuracy at w {at_w:.3f}, at ŵ {float(accuracy(params)):.3f}")
    return at_w


if __name__ == "__main__":
    main()
