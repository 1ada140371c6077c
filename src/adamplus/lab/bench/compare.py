"""All contenders on one model: each alone for memory and captured time, then in turn for eager time."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer

from ..device import release, room
from .contenders import ADAM_PLUS, BASELINE, CONTENDERS, BenchContender, UnavailableError, moved_bytes
from .measure import WARM_UP, Times, captured, eager, give_gradients, peak, state_bytes
from .report import InputError, ModelCosts, StepCost
from .shapes import parameters

Tick = Callable[[int], object]


class Alone(NamedTuple):
    """Measurements of a contender that had the device for itself."""

    state: int
    extra: int
    captured: Times | None
    not_captured: str | None


class Conditions(NamedTuple):
    """Device, precision and number of rounds of all measurements."""

    device: torch.device
    dtype: torch.dtype
    rounds: int
    copy_bandwidth: float
    """Bytes per second."""


def ticks(contenders: Sequence[BenchContender], rounds: int) -> int:
    """How often `compare` ticks in all."""
    return len(contenders) * (1 + WARM_UP + rounds)


def compare(
    name: str, model: nn.Module, contenders: Sequence[BenchContender], conditions: Conditions, tick: Tick
) -> ModelCosts:
    """Measure the contenders on the parameters of a model, which is on the meta device."""
    device, count = conditions.device, parameters(model)
    release(device)
    refuse_what_cannot_fit(name, count, conditions)
    model = with_values(model, conditions)
    alone: dict[str, Alone] = {}
    absent: dict[str, str] = {}
    for contender in contenders:
        try:
            alone[contender.key] = measure_alone(contender, model, conditions.rounds)
        except (UnavailableError, RuntimeError) as error:  # RuntimeError: out of memory, or fused refused on a CPU
            absent[contender.label] = reason(error)
            tick(WARM_UP + conditions.rounds)
        release(device)
        tick(1)
    times: dict[str, Times] = {}
    for batch in batches(alone, int(0.85 * room(device))):  # the rest is for the allocator's gaps
        try:
            times |= side_by_side(batch, model, conditions.rounds, lambda: tick(1))
        except torch.OutOfMemoryError as error:
            absent |= {CONTENDERS[key].label: reason(error) for key in batch}
        release(device)
    floor_ms = 1e3 * moved_bytes(ADAM_PLUS, count, conditions.dtype) / conditions.copy_bandwidth
    costs = {
        key: step_cost(CONTENDERS[key], count, alone[key], times[key], floor_ms, conditions)
        for key in alone
        if key in times
    }
    if (base := costs.get(BASELINE)) is not None:
        for own in costs.values():
            own.eager_over_adam = own.eager_ms / base.eager_ms
            if own.captured_ms is not None and base.captured_ms is not None:
                own.captured_over_adam = own.captured_ms / base.captured_ms
    return ModelCosts(name, len(list(model.parameters())), count, floor_ms, list(costs.values()), absent)


def with_values(model: nn.Module, conditions: Conditions) -> nn.Module:
    """The model on the device, with random parameters and with gradients."""
    model = model.to(conditions.dtype).to_empty(device=conditions.device)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.02)
    give_gradients(list(model.parameters()))
    return model


def refuse_what_cannot_fit(name: str, count: int, conditions: Conditions) -> None:
    """Raise InputError if not even one optimizer has room: on a CPU, the system would kill the process."""
    # Parameters, gradients and one buffer; on a CPU, where running out of memory cannot be caught, also Adam's second
    # buffer and the temporaries of a step.
    buffers = 3 if conditions.device.type == "cuda" else 5
    need, there = buffers * count * conditions.dtype.itemsize, room(conditions.device)
    if need > there:
        raise InputError(
            f"{name} has {count:,} parameters and needs about {need / 2**30:.1f} GiB on {conditions.device}, "
            f"which has {there / 2**30:.1f}: choose smaller lists with --model or --max-parameters"
        )


def measure_alone(contender: BenchContender, model: nn.Module, rounds: int) -> Alone:
    """Measure the memory of the first two steps, of which the first makes state, and the time of a captured step."""
    params = list(model.parameters())
    device = params[0].device
    optimizers: list[Optimizer] = []

    def two_steps() -> None:
        optimizers.extend(contender.build(model))
        for _ in range(2):
            step_all(optimizers)

    most = peak(two_steps, device)
    state, extra = state_bytes(optimizers), max(0, most - state_bytes(optimizers, device))
    optimizers.clear()
    release(device)
    if device.type != "cuda":
        return Alone(state, extra, None, "a CPU has no graphs to capture")
    if contender.no_capture is not None:
        return Alone(state, extra, None, contender.no_capture)
    try:
        optimizers.extend(contender.build(model, **contender.capture))
        return Alone(state, extra, captured(lambda: step_all(optimizers), params, rounds), None)
    except RuntimeError as error:
        return Alone(state, extra, None, reason(error))


def batches(alone: dict[str, Alone], there: int) -> list[list[str]]:
    """Contenders in order, in batches whose states fit into the device together: one batch, unless models are large."""
    found: list[list[str]] = []
    for key in alone:
        with_it = [alone[other] for other in (*found[-1], key)] if found else []
        if with_it and sum(own.state for own in with_it) + max(own.extra for own in with_it) <= there:
            found[-1].append(key)
        else:
            found.append([key])
    return found


def side_by_side(keys: Sequence[str], model: nn.Module, rounds: int, tick: Callable[[], object]) -> dict[str, Times]:
    """Eager times of contenders that fit into the device together."""
    built = {key: CONTENDERS[key].build(model) for key in keys}
    steps = {key: partial(step_all, own) for key, own in built.items()}
    return eager(steps, list(model.parameters()), rounds, tick)


def step_all(optimizers: Sequence[Optimizer]) -> None:
    """Take one step of each optimizer."""
    for optimizer in optimizers:
        optimizer.step()


def step_cost(
    contender: BenchContender, count: int, alone: Alone, times: Times, floor_ms: float, conditions: Conditions
) -> StepCost:
    """The measurements of a contender as a report stores them, without the ratios to the baseline."""
    moved = None if contender.moves is None else moved_bytes(contender.moves, count, conditions.dtype)
    best = min(times.median, alone.captured.median) if alone.captured is not None else times.median
    return StepCost(
        optimizer=contender.label,
        eager_ms=times.median,
        eager_quartiles_ms=times.quartiles,
        captured_ms=None if alone.captured is None else alone.captured.median,
        captured_quartiles_ms=None if alone.captured is None else alone.captured.quartiles,
        not_captured=alone.not_captured,
        state_bytes=alone.state,
        extra_bytes=alone.extra,
        moved_bytes=moved,
        gb_per_s=None if moved is None else moved / best / 1e6,
        copy_share=None if moved is None else 1e3 * moved / best / conditions.copy_bandwidth,
        over_floor=best / floor_ms,
    )


def reason(error: BaseException) -> str:
    """The first line of the first error in a chain, which a table has room for."""
    if error.__context__ is not None and not error.__suppress_context__:  # ending a broken capture raises another error
        return reason(error.__context__)
    return "out of memory" if isinstance(error, torch.OutOfMemoryError) else str(error).splitlines()[0]
