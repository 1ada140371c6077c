"""The Triton kernels of a fused step, by lines of Algorithm 1:

    first       lines 5 and 10 (z_t), for ‖z_t‖ alone; writes nothing else
    step_sizes  line 7 (η_t), and from it the coefficients, offsets, step counts and records
    second      w_t from the last extrapolation, lines 5 and 10 again, and lines 8 and 9 (ŵ_{t+1})

SpectralPlus has no norm, and so no first pass. Its groups with signs take `step_sizes` and `second`, and its matrices
`step_sizes` and the two kernels in `matrix_kernels.py`.

Work is cut into *workers*. Each has one tensor, of which it takes every k-th block. Tensors are found through a table
of pointers, so one launch covers all tensors of the same dtypes. A missing gradient has the pointer 0, and its tensor
is left alone. Nothing is summed in an order that depends on timing: the same inputs give the same bits.
"""

# Triton gives kernels a meaning that a Python type checker does not know.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false

from typing import Any

import triton
import triton.language as tl
from triton.language.extra import cuda

from .columns import CoefficientColumns, GroupColumns, Record, RecordColumns, ScopeColumns, TensorColumns


def _column(columns: type, name: str) -> Any:
    return tl.constexpr(columns._fields.index(name))  # pyright: ignore[reportAttributeAccessIssue]


def _count(columns: type) -> Any:
    return tl.constexpr(len(columns._fields))  # pyright: ignore[reportAttributeAccessIssue]


P = _column(TensorColumns, "p")
Z = _column(TensorColumns, "z")
OFFSET = _column(TensorColumns, "offset")
STEP = _column(TensorColumns, "step")
SIZE = _column(TensorColumns, "size")
FIRST_WORKER = _column(TensorColumns, "first_worker")
WORKERS = _column(TensorColumns, "workers")
GROUP = _column(TensorColumns, "group")
SALT = _column(TensorColumns, "salt")
DIRECTION = _column(TensorColumns, "direction")
KEPT_AT = _column(TensorColumns, "kept")
COLUMNS = _count(TensorColumns)

LR = _column(GroupColumns, "lr")
BETA = _column(GroupColumns, "beta")
BETA_POWER = _column(GroupColumns, "beta_power")
NORM_POWER = _column(GroupColumns, "norm_power")
EPS = _column(GroupColumns, "eps")
LOOKAHEAD = _column(GroupColumns, "lookahead")
COUPLED = _column(GroupColumns, "coupled")
DECOUPLED = _column(GroupColumns, "decoupled")
SIGN = _column(GroupColumns, "sign")
SCALE = _column(GroupColumns, "scale")
SETTINGS = _count(GroupColumns)

OLD_OFFSET = _column(CoefficientColumns, "old_offset")
WEIGHT = _column(CoefficientColumns, "weight")
RATE = _column(CoefficientColumns, "rate")
KEEP = _column(CoefficientColumns, "keep")
COEFFICIENTS = _count(CoefficientColumns)

ROW = _column(ScopeColumns, "row")
END_ROW = _column(ScopeColumns, "end_row")
WORKER = _column(ScopeColumns, "worker")
END_WORKER = _column(ScopeColumns, "end_worker")
SCOPE_COLUMNS = _count(ScopeColumns)

RECORD = _column(RecordColumns, "record")
RECORD_SCOPE = _column(RecordColumns, "scope")
RECORD_COLUMNS = _count(RecordColumns)

NORM = _column(Record, "norm")
ETA = _column(Record, "eta")
NORM_SUM = _column(Record, "norm_sum")
STEPS = _column(Record, "steps")


@triton.jit
def _load(pointer, at, size, MASKED: tl.constexpr):
    # Without a mask, loads are 16 bytes wide. Only a tensor's last block needs one.
    if MASKED:
        return tl.load(pointer + at, mask=at < size, other=0.0).to(tl.float32)
    return tl.load(pointer + at).to(tl.float32)


@triton.jit
def _gradient(g, p, at, size, multiplier, coupled, DECAY: tl.constexpr, MASKED: tl.constexpr):
    """±g + λ ŵ, unscaled."""
    gs = _load(g, at, size, MASKED) * multiplier
    if DECAY:
        gs += coupled * _load(p, at, size, MASKED)
    return gs


@triton.jit
def _pointers(
    table, row, gradient, p_type: tl.constexpr, g_type: tl.constexpr, z_type: tl.constexpr, ALIGNED: tl.constexpr
):
    p = tl.load(table + row * COLUMNS + P).to(tl.pointer_type(p_type))
    g = gradient.to(tl.pointer_type(g_type))
    z = tl.load(table + row * COLUMNS + Z).to(tl.pointer_type(z_type))
    if ALIGNED:
        p = tl.multiple_of(p, 16)
        g = tl.multiple_of(g, 16)
        z = tl.multiple_of(z, 16)
    return p, g, z


@triton.jit
def _multiplier(settings, group, scale, HAS_SCALE: tl.constexpr):
    multiplier = tl.load(settings + group * SETTINGS + SIGN).to(tl.float32)
    if HAS_SCALE:
        multiplier = multiplier / tl.load(scale)
    return multiplier


@triton.jit
def first(
    table, gradients, settings, worker_rows, first_worker, scale, partial,
    p_type: tl.constexpr, g_type: tl.constexpr, z_type: tl.constexpr,
    HAS_SCALE: tl.constexpr, DECAY: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """First pass: Σ z_t² of each worker's share. z is not written yet, so that `second` still has z_{t−1}."""
    if EARLY:  # pragma: no cover - needs a GPU
        cuda.gdc_launch_dependents()
    worker = first_worker + tl.program_id(0)
    row = tl.load(worker_rows + worker).to(tl.int64)
    gradient = tl.load(gradients + row)
    # In float64, because squares of float32 values may leave float32's range (below 1e-22, above 1e19).
    total = tl.zeros([BLOCK], tl.float64)
    if gradient != 0:
        group = tl.load(table + row * COLUMNS + GROUP)
        size = tl.load(table + row * COLUMNS + SIZE)
        p, g, z = _pointers(table, row, gradient, p_type, g_type, z_type, ALIGNED)
        step = tl.load(tl.load(table + row * COLUMNS + STEP).to(tl.pointer_type(tl.float32)))
        beta = tl.load(settings + group * SETTINGS + BETA).to(tl.float32)
        weight = tl.where(step == 0.0, 1.0, beta)
        multiplier = _multiplier(settings, group, scale, HAS_SCALE)
        coupled = tl.load(settings + group * SETTINGS + COUPLED).to(tl.float32)
        stride = tl.load(table + row * COLUMNS + WORKERS) * BLOCK
        start = (worker - tl.load(table + row * COLUMNS + FIRST_WORKER)) * BLOCK
        while start + BLOCK <= size:
            at = start + tl.arange(0, BLOCK)
            gs = _gradient(g, p, at, size, multiplier, coupled, DECAY, False)
            zs = _load(z, at, size, False)
            zs = tl.where(weight == 1.0, gs, zs + weight * (gs - zs))
            total += zs.to(tl.float64) * zs.to(tl.float64)
            start += stride
        if start < size:
            at = start + tl.arange(0, BLOCK)
            gs = _gradient(g, p, at, size, multiplier, coupled, DECAY, True)
            zs = _load(z, at, size, True)
            zs = tl.where(weight == 1.0, gs, zs + weight * (gs - zs))
            total += zs.to(tl.float64) * zs.to(tl.float64)
    tl.store(partial + worker, tl.sum(total))


@triton.jit
def _power(base, exponent):
    """base^exponent for base ≥ 0, with 0^0 = 1. (tl.maximum, here and below, would lose a NaN.)"""
    positive = tl.exp(exponent * tl.log(tl.where(base < 1e-300, 1e-300, base)))
    return tl.where(exponent == 0.0, 1.0, tl.where(base == 0.0, 0.0, positive))


@triton.jit
def step_sizes(
    table, gradients, settings, scopes, partial, found_inf, coefficients, scope_norms, groups, group_count,
    HAS_FOUND_INF: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """‖z_t‖ of a scope, and from it the coefficients of its tensors. Updates offsets, steps and records."""
    scope = tl.program_id(0)
    row = tl.load(scopes + scope * SCOPE_COLUMNS + ROW)
    end_row = tl.load(scopes + scope * SCOPE_COLUMNS + END_ROW)
    worker = tl.load(scopes + scope * SCOPE_COLUMNS + WORKER)
    end_worker = tl.load(scopes + scope * SCOPE_COLUMNS + END_WORKER)
    if EARLY:  # pragma: no cover - needs a GPU
        cuda.gdc_wait()
        cuda.gdc_launch_dependents()
    total = tl.zeros([4096], tl.float64)
    while worker < end_worker:
        at = worker + tl.arange(0, 4096)
        total += tl.load(partial + at, mask=at < end_worker, other=0.0)
        worker += 4096
    lanes = tl.arange(0, BLOCK)
    norm = tl.sqrt(tl.sum(total))
    moves = True
    if HAS_FOUND_INF:
        moves = tl.load(found_inf) == 0.0
    if moves:
        tl.store(scope_norms + scope, norm)
        some = tl.zeros([BLOCK], tl.int32)
        while row < end_row:
            rows = row + lanes
            inside = rows < end_row
            there = inside & (tl.load(gradients + rows, mask=inside, other=0) != 0)
            some |= there.to(tl.int32)
            group = tl.load(table + rows * COLUMNS + GROUP, mask=inside, other=0)
            eta = _eta(settings, group, norm) * tl.load(settings + group * SETTINGS + SCALE)
            lr = tl.load(settings + group * SETTINGS + LR)
            beta = tl.load(settings + group * SETTINGS + BETA)
            decoupled = tl.load(settings + group * SETTINGS + DECOUPLED)
            offset_at = tl.load(table + rows * COLUMNS + OFFSET, mask=inside, other=0).to(tl.pointer_type(tl.float32))
            step_at = tl.load(table + rows * COLUMNS + STEP, mask=inside, other=0).to(tl.pointer_type(tl.float32))
            step = tl.load(step_at, mask=there, other=0.0)
            ahead = tl.load(settings + group * SETTINGS + LOOKAHEAD)
            rate = tl.where(ahead < 0.0, eta / beta, eta * (1.0 + ahead))
            rate = tl.where(there, _bounded(rate), 0.0)
            offset = eta * tl.where(ahead < 0.0, 1.0 / beta - 1.0, ahead)
            out = coefficients + rows * COEFFICIENTS
            tl.store(out + OLD_OFFSET, tl.load(offset_at, mask=there, other=0.0), mask=inside)
            tl.store(out + WEIGHT, tl.where(step == 0.0, 1.0, beta).to(tl.float32), mask=inside)
            tl.store(out + RATE, rate.to(tl.float32), mask=inside)
            tl.store(out + KEEP, (1.0 - lr * decoupled).to(tl.float32), mask=inside)
            tl.store(offset_at, _bounded(offset).to(tl.float32), mask=there)
            tl.store(step_at, step + 1.0, mask=there)
            row += BLOCK
        group = tl.zeros([BLOCK], tl.int64) + lanes
        while tl.min(group) < group_count:
            member = (group < group_count) & (tl.max(some) != 0)
            own_scope = tl.load(groups + group * RECORD_COLUMNS + RECORD_SCOPE, mask=member, other=-1)
            member = member & (own_scope == scope)
            record = tl.load(groups + group * RECORD_COLUMNS + RECORD, mask=member, other=0)
            record = record.to(tl.pointer_type(tl.float64))
            eta = _eta(settings, tl.where(member, group, 0), norm)
            tl.store(record + NORM, tl.zeros([BLOCK], tl.float64) + norm, mask=member)
            tl.store(record + ETA, eta, mask=member)
            tl.store(record + NORM_SUM, tl.load(record + NORM_SUM, mask=member, other=0.0) + norm, mask=member)
            tl.store(record + STEPS, tl.load(record + STEPS, mask=member, other=0.0) + 1.0, mask=member)
            group += BLOCK


@triton.jit
def _eta(settings, group, norm):
    """Line 7: η_t = α β^a / max(‖z_t‖^p, ε₀). If that is 0, z is 0 and any η is right. If it is inf, η is NaN."""
    lr = tl.load(settings + group * SETTINGS + LR)
    beta = tl.load(settings + group * SETTINGS + BETA)
    beta_power = tl.load(settings + group * SETTINGS + BETA_POWER)
    norm_power = tl.load(settings + group * SETTINGS + NORM_POWER)
    eps = tl.load(settings + group * SETTINGS + EPS)
    power = _power(norm, norm_power)
    denominator = tl.where(power < eps, eps, power)
    denominator = tl.where(denominator == float("inf"), float("nan"), denominator)
    return lr * _power(beta, beta_power) / tl.where(denominator == 0.0, 1.0, denominator)


@triton.jit
def _bounded(scale):
    """The scale, bounded by what float32 can hold."""
    return tl.where(scale > 3.4e38, 3.4e38, scale)


@triton.jit
def _mixed(x):
    """Hash of 32 bits (lowbias32 of Chris Wellons' hash prospector)."""
    x ^= x >> 16
    x *= 0x7FEB352D
    x ^= x >> 15
    x *= 0x846CA68B
    x ^= x >> 16
    return x


@triton.jit
def _noise(at, seed):
    """16 pseudo-random bits for each element."""
    high = (at >> 32).to(tl.uint32)
    return _mixed(at.to(tl.uint32) ^ _mixed(seed + high)) & 0xFFFF


@triton.jit
def _seed(table, row, STOCHASTIC: tl.constexpr):
    """Seed of a tensor's noise in this step."""
    seed = tl.load(table + row * COLUMNS + SALT).to(tl.uint32)
    if STOCHASTIC:
        step = tl.load(tl.load(table + row * COLUMNS + STEP).to(tl.pointer_type(tl.float32)))
        seed = _mixed(seed ^ _mixed(step.to(tl.uint32)))
    return seed


@triton.jit
def _rounded(values, noise):
    """Values cut to bfloat16's bits, after noise was added below the last bit that stays."""
    bits = values.to(tl.uint32, bitcast=True)
    finite = (bits & 0x7F800000) != 0x7F800000
    return tl.where(finite, ((bits + noise) & 0xFFFF0000).to(tl.float32, bitcast=True), values)


@triton.jit
def _narrowed(values, pointer):
    """Values as they will be read back after a store through `pointer`."""
    if pointer.dtype.element_ty == tl.bfloat16:
        # Round to nearest, ties to even. A GPU does this itself, but Triton's interpreter cuts bits off.
        values = _rounded(values, 0x7FFF + ((values.to(tl.uint32, bitcast=True) >> 16) & 1))
    return values.to(pointer.dtype.element_ty).to(tl.float32)


@triton.jit
def _store(pointer, at, size, values, MASKED: tl.constexpr):
    if MASKED:
        tl.store(pointer + at, values.to(pointer.dtype.element_ty), mask=at < size)
    else:
        tl.store(pointer + at, values.to(pointer.dtype.element_ty))


@triton.jit
def _direction(z, SIGNS: tl.constexpr):
    """D(z)/s: z itself for Adam⁺, and its sign for SpectralPlus, where z − z turns inf and NaN into NaN."""
    if SIGNS:
        return tl.where(z > 0.0, 1.0, tl.where(z < 0.0, -1.0, 0.0)) + (z - z)
    return z


@triton.jit
def _update_block(
    p, g, z, at, size, multiplier, coupled, old_offset, weight, rate, keep, seed,
    DECAY: tl.constexpr, SIGNS: tl.constexpr, STOCHASTIC: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    ps = _load(p, at, size, MASKED)
    gs = _load(g, at, size, MASKED) * multiplier
    if DECAY:
        gs += coupled * ps
    zs = _load(z, at, size, MASKED)
    w = (ps + old_offset * _direction(zs, SIGNS)) * keep  # w_t = ŵ_t + c_{t−1} z_{t−1}
    zs = _narrowed(tl.where(weight == 1.0, gs, zs + weight * (gs - zs)), z)  # lines 5 and 10
    ps = w - rate * _direction(zs, SIGNS)  # lines 8 and 9, with the z that will undo them
    ps = _rounded(ps, _noise(at, seed)) if STOCHASTIC else _narrowed(ps, p)
    _store(z, at, size, zs, MASKED)
    _store(p, at, size, ps, MASKED)


@triton.jit
def second(
    table, gradients, settings, worker_rows, first_worker, scale, found_inf, coefficients,
    p_type: tl.constexpr, g_type: tl.constexpr, z_type: tl.constexpr,
    HAS_SCALE: tl.constexpr, HAS_FOUND_INF: tl.constexpr, DECAY: tl.constexpr, SIGNS: tl.constexpr,
    STOCHASTIC: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Second pass: undo the last extrapolation, average and move. 20 bytes per float32 parameter."""
    # Backwards, last workers and blocks first: what the first pass read last is still in the cache.
    worker = first_worker + tl.num_programs(0) - 1 - tl.program_id(0)
    row = tl.load(worker_rows + worker).to(tl.int64)
    gradient = tl.load(gradients + row)
    if EARLY:  # pragma: no cover - needs a GPU
        cuda.gdc_wait()
    moves = gradient != 0
    if HAS_FOUND_INF:
        moves = moves & (tl.load(found_inf) == 0.0)
    if moves:
        group = tl.load(table + row * COLUMNS + GROUP)
        size = tl.load(table + row * COLUMNS + SIZE)
        p, g, z = _pointers(table, row, gradient, p_type, g_type, z_type, ALIGNED)
        old_offset = tl.load(coefficients + row * COEFFICIENTS + OLD_OFFSET)
        weight = tl.load(coefficients + row * COEFFICIENTS + WEIGHT)
        rate = tl.load(coefficients + row * COEFFICIENTS + RATE)
        keep = tl.load(coefficients + row * COEFFICIENTS + KEEP)
        multiplier = _multiplier(settings, group, scale, HAS_SCALE)
        coupled = tl.load(settings + group * SETTINGS + COUPLED).to(tl.float32)
        seed = _seed(table, row, STOCHASTIC)
        stride = tl.load(table + row * COLUMNS + WORKERS) * BLOCK
        first = (worker - tl.load(table + row * COLUMNS + FIRST_WORKER)) * BLOCK
        start = first + (size - 1 - first) // stride * stride
        if start + BLOCK > size:
            at = start + tl.arange(0, BLOCK)
            _update_block(
                p, g, z, at, size, multiplier, coupled, old_offset, weight, rate, keep, seed,
                DECAY, SIGNS, STOCHASTIC, True,
            )  # fmt: skip
            start -= stride
        while start >= first:
            at = start + tl.arange(0, BLOCK)
            _update_block(
                p, g, z, at, size, multiplier, coupled, old_offset, weight, rate, keep, seed,
                DECAY, SIGNS, STOCHASTIC, False,
            )  # fmt: skip
            start -= stride
