"""Columns of the tables that the fused kernels read. Tables are filled and indexed by these names."""

from typing import NamedTuple


class TensorColumns(NamedTuple):
    """One row for each tensor (int64): addresses, size, the workers that take it, its group, and its noise.

    `direction` is where D(z) of a matrix begins in the buffer of its part, and `kept` is the address of the D(z) that
    SpectralPlus keeps, or 0.
    """

    p: int
    z: int
    offset: int
    step: int
    size: int
    first_worker: int
    workers: int
    group: int
    salt: int
    direction: int
    kept: int


class GroupColumns(NamedTuple):
    """One row for each group (float64): its settings.

    `lookahead` is −1 for the paper's 1/β − 1. `coupled` or `decoupled` is λ. `sign` is −1 to maximize. `scale` is 1
    for Adam⁺, and s in the directions of SpectralPlus.
    """

    lr: float
    beta: float
    beta_power: float
    norm_power: float
    eps: float
    lookahead: float
    coupled: float
    decoupled: float
    sign: float
    scale: float


class CoefficientColumns(NamedTuple):
    """One row for each tensor (float32): what the kernel `step_sizes` leaves for `second`."""

    old_offset: float
    weight: float
    rate: float
    keep: float


class ScopeColumns(NamedTuple):
    """One row for each norm (int64): the tensors and workers that it is over."""

    row: int
    end_row: int
    worker: int
    end_worker: int


class RecordColumns(NamedTuple):
    """One row for each group (int64): the address of its record, and its scope or −1."""

    record: int
    scope: int


class Record(NamedTuple):
    """A group's record (float64), which `stats()` reads."""

    norm: float
    eta: float
    norm_sum: float
    steps: float
    skipped: float
