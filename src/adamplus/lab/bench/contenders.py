"""The contenders of a benchmark: one line of registration each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from adamplus import AdamPlus, SpectralPlus

from ..optimizers import UnavailableError, muon_with_adamw, spectral_plus

Build = Callable[..., list[Optimizer]]
Moves = tuple[int, int]
"""How often a step must read or write an element of the parameter's dtype, and one of float32 state."""


@dataclass(frozen=True)
class BenchContender:
    """An optimizer with one way of executing its step."""

    key: str
    """Its name for `--optimizer`: that of the optimizer in comparisons, with the way of executing the step."""
    label: str
    """Its name in tables and figures."""
    build: Build
    """Makes the optimizers that step a model's parameters together: one, or two for Muon."""
    moves: Moves | None
    """None if the step is not limited by memory."""
    capture: dict[str, Any] = field(default_factory=dict)
    """Arguments that the constructor needs before a step is captured in a CUDA graph."""
    no_capture: str | None = None
    """Why a captured step would be wrong; None if it would be right."""
    heavy: bool = False
    """Whether a step of millions of parameters takes seconds on a CPU, where only those who name it measure it."""


def moved_bytes(moves: Moves, count: int, dtype: torch.dtype) -> int:
    """Bytes that a step of `count` parameters must read and write, however it is executed."""
    return count * (moves[0] * dtype.itemsize + moves[1] * 4)


def one(cls: Callable[..., Optimizer], **settings: Any) -> Build:
    """The builder of a single optimizer over all parameters."""
    return lambda model, **capture: [cls(model.parameters(), **settings, **capture)]


def schedule_free(model: nn.Module) -> list[Optimizer]:
    """Schedule-free AdamW, in training mode."""
    try:
        from schedulefree import AdamWScheduleFree
    except ImportError:
        raise UnavailableError("not installed (pip install schedulefree)") from None
    optimizer = AdamWScheduleFree(model.parameters(), foreach=True)
    optimizer.train()
    return [optimizer]


def muon(model: nn.Module, **capture: Any) -> list[Optimizer]:
    """Muon for hidden matrices and fused AdamW for other parameters."""
    parts = muon_with_adamw(model, adamw={"fused": True, **capture})
    if not isinstance(parts[0], torch.optim.Muon):
        raise UnavailableError("it steps hidden matrices of two dimensions, and there are none")
    return parts


def spectral(**settings: Any) -> Build:
    """The builder of SpectralPlus: spectral steps for hidden matrices, sign steps for other parameters."""
    return lambda model, **capture: [spectral_plus(model, **settings, **capture)]


# Adam⁺ reads g and z for the norm, then g, z and ŵ, and writes z and ŵ. Adam and schedule-free AdamW read the
# parameter, g and two buffers, and write all but g; momentum SGD has one buffer. A sign step reads g, z and ŵ, and
# writes z and ŵ.
ADAM_PLUS, ADAM, MOMENTUM, SIGN = (4, 3), (7, 0), (5, 0), (3, 2)
CAPTURABLE = {"capturable": True}

CONTENDERS: dict[str, BenchContender] = {
    contender.key: contender
    for contender in (
        BenchContender("adam-plus-fused", "Adam⁺ fused", one(AdamPlus, fused=True), ADAM_PLUS),
        BenchContender("adam-plus-foreach", "Adam⁺ foreach", one(AdamPlus, foreach=True), ADAM_PLUS, CAPTURABLE),
        BenchContender("adam-plus-plain", "Adam⁺ plain", one(AdamPlus, foreach=False), ADAM_PLUS, CAPTURABLE),
        BenchContender("adam-fused", "Adam fused", one(Adam, fused=True), ADAM, CAPTURABLE),
        BenchContender("adam-foreach", "Adam foreach", one(Adam, foreach=True), ADAM, CAPTURABLE),
        BenchContender("adamw-fused", "AdamW fused", one(AdamW, fused=True), ADAM, CAPTURABLE),
        BenchContender("adamw-foreach", "AdamW foreach", one(AdamW, foreach=True), ADAM, CAPTURABLE),
        BenchContender("msgd-fused", "momentum SGD fused", one(SGD, lr=0.1, momentum=0.9, fused=True), MOMENTUM),
        BenchContender("msgd-foreach", "momentum SGD foreach", one(SGD, lr=0.1, momentum=0.9, foreach=True), MOMENTUM),
        BenchContender(
            "schedule-free-adamw",
            "schedule-free AdamW",
            schedule_free,
            ADAM,
            no_capture="its weights change at every step on the host: a replay would repeat those of one step",
        ),
        BenchContender("muon", "Muon + AdamW fused", muon, None, CAPTURABLE),
        BenchContender("spectral-plus", "SpectralPlus", spectral(), None, CAPTURABLE, heavy=True),
        BenchContender(
            "spectral-plus-kept",
            "SpectralPlus, D kept",
            spectral(keep_direction=True),
            None,
            CAPTURABLE,
            heavy=True,
        ),
        BenchContender(
            "spectral-plus-sign", "SpectralPlus, signs", one(SpectralPlus, geometry="sign"), SIGN, CAPTURABLE
        ),
    )
}
WAYS = ("fused", "foreach", "plain", "kept", "sign")
"""What follows the name of an optimizer in the name of one way of executing its step."""
BASELINE = "adam-fused"


def by_optimizer() -> dict[str, list[str]]:
    """The names of all ways of executing a step, by the name of the optimizer."""
    found: dict[str, list[str]] = {}
    for key in CONTENDERS:
        name, _, way = key.rpartition("-")
        found.setdefault(name if way in WAYS else key, []).append(key)
    return found
