"""Settings of a method as text, and as a function that begins its walk."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from adamplus.theory.problems import Problem

from .walks import AdamPlusWalk, BatchedAdamPlus, Begin, OptimizerWalk, Walk


@dataclass(frozen=True)
class Candidate:
    """Settings of a method: as text, and as a function that begins a walk."""

    settings: str
    begin: Begin


def whole(number: float) -> int:
    """The nearest whole number of samples or steps, at least 1."""
    return max(1, round(number))


def optimizer_candidate(kind: Callable[..., Any], settings: dict[str, Any], batches: tuple[int, ...]) -> Candidate:
    """A candidate that is an optimizer with these settings and batch sizes."""

    def begin(problem: Problem, start: Tensor, generator: torch.Generator) -> Walk:
        def optimizer(params: list[nn.Parameter]) -> Any:
            return kind(params, **settings)

        return OptimizerWalk(problem, start, optimizer, batches, generator)

    return Candidate(f"{_text(settings)}; batch {', '.join(f'{batch:,}' for batch in batches)}", begin)


def adam_plus_candidate(settings: dict[str, Any], batches: tuple[int, int]) -> Candidate:
    """A candidate that is Adam⁺ with these settings and batch sizes (first, later)."""

    def begin(problem: Problem, start: Tensor, generator: torch.Generator) -> Walk:
        return AdamPlusWalk(problem, BatchedAdamPlus(start, **settings), batches, generator)

    return Candidate(f"{_text(settings)}; batch {batches[1]:,}", begin)


def _text(settings: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{name}={text(value)}" for name, value in settings.items() if name != "norm_scope")
