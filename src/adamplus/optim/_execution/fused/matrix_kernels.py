"""The Triton kernels of SpectralPlus's matrices: D(z_t) needs all of z_t, so `second` is two kernels.

    average     z_t
    move        w_t from the last extrapolation by D(z_{t−1}), and ŵ_{t+1} from D(z_t)

They read the tables of `kernels.py`, and `step_sizes` has written their coefficients.
"""

# Triton gives kernels a meaning that a Python type checker does not know.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false

import triton
import triton.language as tl

from .kernels import (
    COEFFICIENTS,
    COLUMNS,
    DIRECTION,
    FIRST_WORKER,
    GROUP,
    KEEP,
    KEPT_AT,
    OLD_OFFSET,
    RATE,
    SETTINGS,
    SIGN,
    SIZE,
    WEIGHT,
    WORKERS,
    _load,
    _narrowed,
    _noise,
    _pointers,
    _rounded,
    _seed,
    _store,
)


@triton.jit
def _average_block(g, z, at, size, multiplier, weight, MASKED: tl.constexpr):
    gs = _load(g, at, size, MASKED) * multiplier
    zs = _load(z, at, size, MASKED)
    zs = tl.where(weight == 1.0, gs, zs + weight * (gs - zs))
    _store(z, at, size, _narrowed(zs, z), MASKED)


@triton.jit
def average(
    table, gradients, settings, worker_rows, first_worker, coefficients,
    p_type: tl.constexpr, g_type: tl.constexpr, z_type: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """z_t of matrices. 12 bytes per float32 parameter."""
    worker = first_worker + tl.program_id(0)
    row = tl.load(worker_rows + worker).to(tl.int64)
    gradient = tl.load(gradients + row)
    if gradient != 0:
        size = tl.load(table + row * COLUMNS + SIZE)
        _, g, z = _pointers(table, row, gradient, p_type, g_type, z_type, ALIGNED)
        weight = tl.load(coefficients + row * COEFFICIENTS + WEIGHT)
        multiplier = tl.load(settings + tl.load(table + row * COLUMNS + GROUP) * SETTINGS + SIGN).to(tl.float32)
        stride = tl.load(table + row * COLUMNS + WORKERS) * BLOCK
        start = (worker - tl.load(table + row * COLUMNS + FIRST_WORKER)) * BLOCK
        while start + BLOCK <= size:
            _average_block(g, z, start + tl.arange(0, BLOCK), size, multiplier, weight, False)
            start += stride
        if start < size:
            _average_block(g, z, start + tl.arange(0, BLOCK), size, multiplier, weight, True)


@triton.jit
def _move_block(
    p, old, new, at, size, old_offset, rate, keep, seed,
    UNDO: tl.constexpr, KEPT: tl.constexpr, STOCHASTIC: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    ps = _load(p, at, size, MASKED)
    if UNDO:
        ps += old_offset * _load(old, at, size, MASKED)
    directions = _load(new, at, size, MASKED)
    if KEPT:
        directions = _narrowed(directions, old)  # as the next step will know it
        _store(old, at, size, directions, MASKED)
    ps = ps * keep - rate * directions
    ps = _rounded(ps, _noise(at, seed)) if STOCHASTIC else _narrowed(ps, p)
    _store(p, at, size, ps, MASKED)


@triton.jit
def move(
    table, gradients, worker_rows, first_worker, coefficients, old, new,
    p_type: tl.constexpr, g_type: tl.constexpr, z_type: tl.constexpr,
    UNDO: tl.constexpr, KEPT: tl.constexpr, STOCHASTIC: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Undo the last extrapolation of matrices, and move them. 12 bytes per float32 parameter, and 2 if D(z) is kept."""
    worker = first_worker + tl.program_id(0)
    row = tl.load(worker_rows + worker).to(tl.int64)
    gradient = tl.load(gradients + row)
    if gradient != 0:
        size = tl.load(table + row * COLUMNS + SIZE)
        p, _, _ = _pointers(table, row, gradient, p_type, g_type, z_type, ALIGNED)
        begin = tl.multiple_of(tl.load(table + row * COLUMNS + DIRECTION), 16)
        new += begin
        if KEPT:
            old = tl.load(table + row * COLUMNS + KEPT_AT).to(tl.pointer_type(tl.bfloat16))
            if ALIGNED:
                old = tl.multiple_of(old, 16)
        else:
            old += begin
        old_offset = tl.load(coefficients + row * COEFFICIENTS + OLD_OFFSET)
        rate = tl.load(coefficients + row * COEFFICIENTS + RATE)
        keep = tl.load(coefficients + row * COEFFICIENTS + KEEP)
        seed = _seed(table, row, STOCHASTIC)
        stride = tl.load(table + row * COLUMNS + WORKERS) * BLOCK
        start = (worker - tl.load(table + row * COLUMNS + FIRST_WORKER)) * BLOCK
        while start + BLOCK <= size:
            at = start + tl.arange(0, BLOCK)
            _move_block(p, old, new, at, size, old_offset, rate, keep, seed, UNDO, KEPT, STOCHASTIC, False)
            start += stride
        if start < size:
            at = start + tl.arange(0, BLOCK)
            _move_block(p, old, new, at, size, old_offset, rate, keep, seed, UNDO, KEPT, STOCHASTIC, True)
