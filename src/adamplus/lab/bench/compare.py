"""All contestants on one list of tensors: each alone for memory and captured time, then in turn for eager time."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer

from ..device import release, room
from .contestants import ADAM_PLUS, BASELINE, CONTESTANTS, Contestant, UnavailableError, moved_bytes
from .memory import peak, state_bytes
from .report import InputError, Measured, Row
from .shapes import Shapes, parameters
from .time import WARM_UP, Times, captured, eager, give_gradients

Tick = Callable[[int], object]
Params = list[nn.Parameter]


class Alone(NamedTuple):
    """What was measured of a contestant that had the device for itself."""

    state: int
    extra: int
    captured: Times | None
    not_captured: str | None


class Bench(NamedTuple):
    """Where and how things are measured."""

    device: torch.device
    dtype: torch.dtype
    rounds: int
    copy_bandwidth: float
    """Bytes a second."""


def ticks(contestants: Sequence[Contestant], rounds: int) -> int:
    """How often `compare` will tick."""
    return len(contestants) * (1 + WARM_UP + rounds)


def compare(model: str, shapes: Shapes, contestants: Sequence[Contestant], bench: Bench, tick: Tick) -> Measured:
    """Measure the contestants on parameters of these shapes."""
    device, count = bench.device, parameters(shapes)
    release(device)
    refuse_what_cannot_fit(model, count, bench)
    params = [nn.Parameter(torch.empty(s, device=device, dtype=bench.dtype).normal_(std=0.02)) for s in shapes]
    give_gradients(params)
    alone: dict[str, Alone] = {}
    absent: dict[str, str] = {}
    for contestant in contestants:
        try:
            alone[contestant.key] = measure_alone(contestant, params, bench.rounds)
        except (
            UnavailableError,
            RuntimeError,
        ) as error:  # out of memory is a RuntimeError, and Adam⁺ refused on a CPU, too
            absent[contestant.label] = reason(error)
            tick(WARM_UP + bench.rounds)
        release(device)
        tick(1)
    times: dict[str, Times] = {}
    for batch in batches(alone, int(0.85 * room(device))):  # the rest is for the allocator's gaps
        try:
            times |= side_by_side(batch, params, bench.rounds, lambda: tick(1))
        except torch.OutOfMemoryError as error:
            absent |= {CONTESTANTS[key].label: reason(error) for key in batch}
        release(device)
    floor_ms = 1e3 * moved_bytes(ADAM_PLUS, count, bench.dtype) / bench.copy_bandwidth
    rows = {key: row(CONTESTANTS[key], count, alone[key], times[key], floor_ms, bench) for key in alone if key in times}
    if (base := rows.get(BASELINE)) is not None:
        for own in rows.values():
            own.eager_over_adam = own.eager_ms / base.eager_ms
            if own.captured_ms is not None and base.captured_ms is not None:
                own.captured_over_adam = own.captured_ms / base.captured_ms
    return Measured(model, len(shapes), count, floor_ms, list(rows.values()), absent)


def refuse_what_cannot_fit(model: str, count: int, bench: Bench) -> None:
    """Raise where not even one optimizer would have room; a CPU kills whoever tries."""
    # Parameters, gradients and one buffer; Adam's second and what a step allocates, where that cannot be caught.
    buffers = 3 if bench.device.type == "cuda" else 5
    need, there = buffers * count * bench.dtype.itemsize, room(bench.device)
    if need > there:
        raise InputError(
            f"{model} has {count:,} parameters and needs about {need / 2**30:.1f} GiB on {bench.device}, "
            f"and there are {there / 2**30:.1f}: choose smaller ones with --model or --max-parameters"
        )


def measure_alone(contestant: Contestant, params: Params, rounds: int) -> Alone:
    """Memory of the first two steps, the one that makes state and one that has it; then the captured step."""
    device = params[0].device
    optimizers: list[Optimizer] = []

    def two_steps() -> None:
        optimizers.extend(contestant.build(params))
        for _ in range(2):
            together(optimizers)

    most = peak(two_steps, device)
    state, extra = state_bytes(optimizers), max(0, most - state_bytes(optimizers, device))
    optimizers.clear()
    release(device)
    if device.type != "cuda":
        return Alone(state, extra, None, "a CPU has no graphs to capture")
    if contestant.no_capture is not None:
        return Alone(state, extra, None, contestant.no_capture)
    try:
        optimizers.extend(contestant.build(params, **contestant.capture))
        return Alone(state, extra, captured(lambda: together(optimizers), params, rounds), None)
    except RuntimeError as error:
        return Alone(state, extra, None, reason(error))


def batches(alone: dict[str, Alone], there: int) -> list[list[str]]:
    """Contestants whose states have room beside each other, in order; all in one, unless the model is large."""
    found: list[list[str]] = []
    for key in alone:
        with_it = [alone[other] for other in (*found[-1], key)] if found else []
        if with_it and sum(own.state for own in with_it) + max(own.extra for own in with_it) <= there:
            found[-1].append(key)
        else:
            found.append([key])
    return found


def side_by_side(keys: Sequence[str], params: Params, rounds: int, tick: Callable[[], object]) -> dict[str, Times]:
    """Eager times of contestants that have room beside each other."""
    built = {key: CONTESTANTS[key].build(params) for key in keys}
    steps = {key: partial(together, own) for key, own in built.items()}
    return eager(steps, params, rounds, tick)


def together(optimizers: Sequence[Optimizer]) -> None:
    """One step of each."""
    for optimizer in optimizers:
        optimizer.step()


def row(contestant: Contestant, count: int, alone: Alone, times: Times, floor_ms: float, bench: Bench) -> Row:
    """What the table says of a contestant, but for the ratios."""
    moved = None if contestant.moves is None else moved_bytes(contestant.moves, count, bench.dtype)
    best = min(times.median, alone.captured.median) if alone.captured is not None else times.median
    return Row(
        optimizer=contestant.label,
        eager_ms=times.median,
        eager_quartiles_ms=times.quartiles,
        captured_ms=None if alone.captured is None else alone.captured.median,
        captured_quartiles_ms=None if alone.captured is None else alone.captured.quartiles,
        not_captured=alone.not_captured,
        state_bytes=alone.state,
        extra_bytes=alone.extra,
        moved_bytes=moved,
        gb_per_s=None if moved is None else moved / best / 1e6,
        copy_share=None if moved is None else 1e3 * moved / best / bench.copy_bandwidth,
        over_floor=best / floor_ms,
    )


def reason(error: BaseException) -> str:
    """The first line of what went wrong first, which is what a table has room for."""
    if error.__context__ is not None and not error.__suppress_context__:  # the end of a broken capture complains, too
        return reason(error.__context__)
    return "out of memory" if isinstance(error, torch.OutOfMemoryError) else str(error).splitlines()[0]
