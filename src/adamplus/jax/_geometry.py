"""Directions D(z) of `spectral_plus`: the geometry of a leaf, and U Vᵀ of its matrices by matrix products alone."""

import math
import operator
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

from ..optim import POLAR_EXPRESS

Axes: TypeAlias = int | tuple[int, ...]


@dataclass(frozen=True)
class Sign:
    """Sign steps, s · sign(z), for embeddings, output heads and vectors.

    Args:
        scale: s.
    """

    scale: float = 0.04


@dataclass(frozen=True)
class Spectral:
    """Spectral steps, s √(d_out/d_in) U Vᵀ of each matrix z = U Σ Vᵀ of a leaf.

    Args:
        scale: s.
        output: axis or axes that make up d_out. Default: the last one, as in kernels of Flax and Haiku. 0 for weights
            in torch's layout, as Equinox has them.
        batch: axis or axes that number matrices. All other axes make up d_in.
        blocks: number or sizes of the matrices that d_out consists of: 3 for packed queries, keys and values.
        dtype: "bfloat16", "float32" or "float64", in which U Vᵀ is computed. Default: float64 of float64, else bfloat16
            on accelerators and float32 on CPUs. No state remembers it: set it if a run trains on an accelerator and
            evaluates, or goes on, on a CPU. Otherwise w is computed with another U Vᵀ, whose singular values differ by
            up to 0.12, and more if they are small.
    """

    scale: float = 1.0
    output: Axes = -1
    batch: Axes = ()
    blocks: int | tuple[int, ...] = 1
    dtype: str | None = None


Geometry: TypeAlias = Spectral | Sign


def axes_from_0(axes: Axes, ndim: int, found: str) -> tuple[int, ...]:
    """Axes counted from 0."""
    axes = tuple(map(operator.index, axes if isinstance(axes, Sequence) else (axes,)))
    if any(not -ndim <= axis < ndim for axis in axes):
        raise ValueError(f"axes must be in [{-ndim}, {ndim}), got {axes} {found}")
    return tuple(axis % ndim for axis in axes)


def block_sizes(blocks: int | tuple[int, ...], d_out: int) -> tuple[int, ...]:
    """Sizes of the blocks that d_out consists of. Their sum is d_out if the blocks fit."""
    if isinstance(blocks, Sequence):
        return tuple(map(operator.index, blocks))
    number = operator.index(blocks)
    return (d_out // number,) * number


def fingerprints(geometries: list[Geometry]) -> np.ndarray:
    """A number for the matrices of each geometry that fits its leaf, with axes from 0 and sizes of blocks.

    The scale is no part of it, because offsets contain it, and neither is the dtype, which depends on the device.
    """

    def known(one: Geometry) -> tuple[Any, ...]:
        return ("sign",) if isinstance(one, Sign) else ("spectral", one.output, one.batch, one.blocks)

    return np.array([zlib.crc32(repr(known(one)).encode()) for one in geometries], np.uint32)


def direction(z: Any, geometry: Geometry) -> jax.Array:
    """D(z)/s of a leaf: the sign of each entry, or √(d_out/d_in) U Vᵀ of each matrix. It is NaN if z is not finite."""
    z = jnp.asarray(z)
    if isinstance(geometry, Sign):
        return jnp.sign(z) + 0 * z
    sharding = jax.typeof(z).sharding
    if AxisType.Explicit in sharding.mesh.axis_types:  # products would need the sharding of each result
        automatic: Any = jax.sharding.auto_axes(lambda x: _spectral(x, geometry), out_sharding=sharding)
        return automatic(z)
    return _spectral(z, geometry)


def _spectral(z: jax.Array, geometry: Spectral) -> jax.Array:
    order, blocks = matrices(z, geometry)
    dtype = geometry.dtype or _computed_dtype(z)
    parts = [
        orthogonalize(part.astype(dtype)) * jnp.asarray(math.sqrt(part.shape[1] / max(part.shape[2], 1)), dtype)
        for part in blocks
    ]
    ordered = tuple(z.shape[i] for i in order)
    return jnp.concatenate(parts, axis=1).reshape(ordered).transpose(np.argsort(order))


def matrices(z: Any, geometry: Spectral) -> tuple[tuple[int, ...], list[Any]]:
    """The order of a leaf's axes that divides it into matrices, and these: a batch [b, d_out, d_in] for each block."""
    batch, output = axes_from_0(geometry.batch, z.ndim, ""), axes_from_0(geometry.output, z.ndim, "")
    order = (*batch, *output, *(i for i in range(z.ndim) if i not in (*batch, *output)))
    counts = [math.prod(z.shape[i] for i in axes) for axes in (batch, output, order[len(batch) + len(output) :])]
    ends = np.cumsum(block_sizes(geometry.blocks, counts[1])).tolist()
    ordered = z.transpose(order).reshape(counts)
    return order, [ordered[:, start:end] for start, end in pairwise([0, *ends])]


def _computed_dtype(z: jax.Array) -> str:
    if z.dtype == jnp.float64:
        return "float64"
    return "float32" if jax.default_backend() == "cpu" else "bfloat16"


def orthogonalize(x: jax.Array) -> jax.Array:
    """U Vᵀ of each matrix U Σ Vᵀ of a batch [b, m, n], by Polar Express in the dtype of x.

    `optim/_orthogonal.py` describes the method, and which singular values become 1 within which error.
    """
    if x.size == 0:
        return x
    largest = jnp.max(jnp.abs(x), axis=(-2, -1), keepdims=True)
    x = x / jnp.where(largest == 0, 1, largest)  # so that squares neither overflow nor vanish
    is_tall = x.shape[-2] > x.shape[-1]
    x = x.mT if is_tall else x
    gram = _product(x, x.mT)
    norm = jnp.sqrt(jnp.linalg.norm(gram, axis=(-2, -1), keepdims=True))  # σ_max ≤ √‖X Xᵀ‖_F ≤ ‖X‖_F
    norm = jnp.where(norm == 0, 1, norm)
    x = (x / norm).astype(x.dtype)
    if x.shape[-2] > 1:  # a single row has one singular value, its length
        steps = jnp.asarray(POLAR_EXPRESS[str(x.dtype)], gram.dtype)
        gram = gram / norm / norm

        def improved(pair: tuple[jax.Array, jax.Array], step: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            x = _polynomial(*pair, step)
            return (x, _product(x, x.mT)), None

        pair, _ = jax.lax.scan(improved, (x, gram), steps[:-1])
        x = _polynomial(*pair, steps[-1])
    return x.mT if is_tall else x


def _polynomial(x: jax.Array, gram: jax.Array, step: jax.Array) -> jax.Array:
    """(a + b A + c A²) X, where A = X Xᵀ."""
    a, b, c = step
    narrow = gram.astype(x.dtype)
    eye = jnp.eye(gram.shape[-1], dtype=gram.dtype)
    return _product((a * eye + b * gram + c * _product(narrow, narrow)).astype(x.dtype), x).astype(x.dtype)


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Product of matrices, summed and returned in at least float32. Factors of float32 are not cut to TF32."""
    wide = jnp.promote_types(a.dtype, jnp.float32)
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST, preferred_element_type=wide)
