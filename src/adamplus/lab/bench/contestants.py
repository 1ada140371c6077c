"""The optimizers that are set side by side: one line of registration each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from adamplus import AdamPlus

from ..optimizers import UnavailableError

Build = Callable[..., list[Optimizer]]


Moves = tuple[int, int]
"""How often a step must read or write an element of the parameter's dtype, and one of float32 state."""


@dataclass(frozen=True)
class Contestant:
    """An optimizer in one way of executing it."""

    key: str
    """What `--optimizer` calls it."""
    label: str
    """What tables and figures call it."""
    build: Build
    """From parameters, the optimizers that step them together: one, except for Muon."""
    moves: Moves | None
    """None where memory is not what its step waits for."""
    capture: dict[str, Any] = field(default_factory=dict)
    """What the constructor needs to be told before a step is captured in a CUDA graph."""
    no_capture: str | None = None
    """Why a captured step would be wrong, if it would."""


def moved_bytes(moves: Moves, count: int, dtype: torch.dtype) -> int:
    """Bytes that a step of `count` parameters must read and write, however it is executed."""
    return count * (moves[0] * dtype.itemsize + moves[1] * 4)


def one(cls: Callable[..., Optimizer], **settings: Any) -> Build:
    """A single optimizer over all parameters."""
    return lambda params, **capture: [cls(params, **settings, **capture)]


def schedule_free(params: list[nn.Parameter]) -> list[Optimizer]:
    """Schedule-free AdamW, in the mode in which it steps."""
    try:
        from schedulefree import AdamWScheduleFree
    except ImportError:
        raise UnavailableError("not installed (pip install schedulefree)") from None
    optimizer = AdamWScheduleFree(params, foreach=True)
    optimizer.train()
    return [optimizer]


def muon(params: list[nn.Parameter], **capture: Any) -> list[Optimizer]:
    """Muon for matrices, and AdamW for what is none, as people combine them."""
    if not hasattr(torch.optim, "Muon"):
        raise UnavailableError(f"torch {torch.__version__} does not have it (2.9 and later do)")
    matrices, others = ([p for p in params if (p.ndim == 2) is matrix] for matrix in (True, False))
    if not matrices:
        raise UnavailableError("it steps matrices, and there are none")
    muon = torch.optim.Muon(matrices)
    return [muon, AdamW(others, fused=True, **capture)] if others else [muon]


# Adam⁺ reads g and z for the norm, then g, z and ŵ, and writes z and ŵ. Adam and schedule-free AdamW read the
# parameter, g and two buffers, and write all but g; momentum SGD has one buffer.
ADAM_PLUS, ADAM, MOMENTUM = (4, 3), (7, 0), (5, 0)
CAPTURABLE = {"capturable": True}

CONTESTANTS: dict[str, Contestant] = {
    contestant.key: contestant
    for contestant in (
        Contestant("adamplus-fused", "Adam⁺ fused", one(AdamPlus, fused=True), ADAM_PLUS),
        Contestant("adamplus-foreach", "Adam⁺ foreach", one(AdamPlus, foreach=True), ADAM_PLUS, CAPTURABLE),
        Contestant("adamplus-plain", "Adam⁺ plain", one(AdamPlus, foreach=False), ADAM_PLUS, CAPTURABLE),
        Contestant("adam-fused", "Adam fused", one(Adam, fused=True), ADAM, CAPTURABLE),
        Contestant("adam-foreach", "Adam foreach", one(Adam, foreach=True), ADAM, CAPTURABLE),
        Contestant("adamw-fused", "AdamW fused", one(AdamW, fused=True), ADAM, CAPTURABLE),
        Contestant("adamw-foreach", "AdamW foreach", one(AdamW, foreach=True), ADAM, CAPTURABLE),
        Contestant("sgd-fused", "momentum SGD fused", one(SGD, lr=0.1, momentum=0.9, fused=True), MOMENTUM),
        Contestant("sgd-foreach", "momentum SGD foreach", one(SGD, lr=0.1, momentum=0.9, foreach=True), MOMENTUM),
        Contestant(
            "schedulefree",
            "schedule-free AdamW",
            schedule_free,
            ADAM,
            no_capture="its weights change at every step on the host: a replay would repeat those of one step",
        ),
        Contestant("muon", "Muon + AdamW fused", muon, None, CAPTURABLE),
    )
}
BASELINE = "adam-fused"
