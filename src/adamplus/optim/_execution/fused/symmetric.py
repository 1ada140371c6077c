"""Symmetric matrix products in Triton: the tiles of one triangle are computed, and stored twice.

On an H200, 48 products X Xᵀ of 768 × 768 in bfloat16 take 0.06 ms and A² with its sum 0.07, for cuBLAS's 0.07 and 0.11;
16 of 2048 × 2048 take 0.24 and 0.25 ms, for 0.35 and 0.44 (`benchmarks/orthogonalize.py`).
"""

# Triton gives kernels a meaning that a Python type checker does not know.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE, DEPTH, WARPS, STAGES = 128, 64, 4, 3
"""Rows of a tile, columns of X that are multiplied at once, warps of a program, and loads in flight."""


@triton.jit
def product(
    x, added, out, factor, added_factor, diagonal, stride_batch, stride_row, stride_column,
    SIZE: tl.constexpr, LENGTH: tl.constexpr, HAS_ADDED: tl.constexpr, EVEN: tl.constexpr,
    TILE: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A tile of the lower triangle, and its mirror image."""
    # Tiles are numbered row by row of the triangle: row i has i + 1 of them.
    tile = tl.program_id(0)
    i = ((tl.sqrt(8.0 * tile + 1.0) - 1.0) / 2.0).to(tl.int32)
    i = tl.where(i * (i + 1) // 2 > tile, i - 1, i)  # the root may be rounded to either side
    i = tl.where((i + 1) * (i + 2) // 2 <= tile, i + 1, i)
    j = tile - i * (i + 1) // 2
    batch = tl.program_id(1).to(tl.int64)
    rows, columns, depth = i * TILE + tl.arange(0, TILE), j * TILE + tl.arange(0, TILE), tl.arange(0, DEPTH)
    left = x + batch * stride_batch + rows[:, None] * stride_row + depth[None, :] * stride_column
    right = x + batch * stride_batch + columns[None, :] * stride_row + depth[:, None] * stride_column
    total = tl.zeros([TILE, TILE], tl.float32)
    for at in range(0, LENGTH, DEPTH):
        if EVEN:
            a, b = tl.load(left), tl.load(right)
        else:
            inside = at + depth < LENGTH
            a = tl.load(left, mask=(rows[:, None] < SIZE) & inside[None, :], other=0.0)
            b = tl.load(right, mask=(columns[None, :] < SIZE) & inside[:, None], other=0.0)
        total = tl.dot(a, b, total)
        left += DEPTH * stride_column
        right += DEPTH * stride_column
    total = factor * total + tl.where(rows[:, None] == columns[None, :], diagonal, 0.0)
    here = batch * SIZE * SIZE + rows[:, None] * SIZE + columns[None, :]
    there = batch * SIZE * SIZE + columns[None, :] * SIZE + rows[:, None]
    inside = (rows[:, None] < SIZE) & (columns[None, :] < SIZE)
    if HAS_ADDED:
        total += added_factor * tl.load(added + here, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + here, total.to(out.dtype.element_ty), mask=inside)
    tl.store(out + there, total.to(out.dtype.element_ty), mask=inside & (i != j))


def symmetric_product(
    x: Tensor,
    *,
    factor: float = 1.0,
    diagonal: float = 0.0,
    added: Tensor | None = None,
    added_factor: float = 0.0,
) -> Tensor:
    """`factor` · X Xᵀ + `diagonal` · I + `added_factor` · `added`, for every matrix X of a batch [b, m, n].

    Args:
        x: a batch with any strides.
        factor: a factor of the product.
        diagonal: a number to add to the diagonal.
        added: a contiguous batch of symmetric matrices [b, m, m]. With x = `added`, the result is a polynomial.
        added_factor: its factor.
    """
    b, m, n = x.shape
    out = torch.empty(b, m, m, dtype=x.dtype, device=x.device)
    side = -(-m // TILE)
    is_even = m % TILE == 0 and n % DEPTH == 0
    kernel: Any = product
    kernel[(side * (side + 1) // 2, b)](
        x, out if added is None else added, out, factor, added_factor, diagonal, *x.stride(),
        m, n, added is not None, is_even, TILE, DEPTH, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return out
