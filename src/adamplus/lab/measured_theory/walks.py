"""Walks of many runs at once: Algorithm 1 or an optimizer on a problem, and ‖∇F‖ along the way."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from adamplus.rivals import PairedGradients
from adamplus.theory.problems import Problem

APART = 1.01
"""Factor by which evaluations grow between two computations of ‖∇F‖."""


class Walk(Protocol):
    """A method at work on many runs at once."""

    evaluations: int
    """Single-sample gradients that each run has evaluated."""

    @property
    def point(self) -> Tensor:
        """The method's present result, one row per run."""
        ...

    @property
    def over(self) -> bool:
        """Whether the method has ended in every run."""
        ...

    def step(self) -> None:
        """Take one step."""
        ...


Begin = Callable[[Problem, Tensor, torch.Generator], Walk]


class BatchedAdamPlus:
    """Algorithm 1 for any p and a, on many runs at once; tested against `AdamPlusReference`.

    Row i of every tensor is run i, which has its own norm.

    Args:
        w: starting points of the runs, of shape (runs, dim).
        lr: α.
        beta: β.
        beta_power: a.
        norm_power: p.
        eps: ε₀.
        extrapolate: take gradients at ŵ. If False, take them at w, so that z is a plain moving average.
    """

    def __init__(
        self,
        w: Tensor,
        lr: float = 0.1,
        beta: float = 0.1,
        *,
        beta_power: float = 1.0,
        norm_power: float = 0.5,
        eps: float = 1e-8,
        extrapolate: bool = True,
    ) -> None:
        self.w: Tensor = w.clone()
        self.at: Tensor = self.w
        """The point at which the next gradient must be taken."""
        self.z: Tensor | None = None
        self.beta: float = beta
        self.length: float = lr * beta**beta_power
        self.norm_power: float = norm_power
        self.eps: float = eps
        self.extrapolate: bool = extrapolate

    def step(self, g: Tensor) -> None:
        """Take one step of every run, with the gradient at `at`."""
        self.z = g if self.z is None else torch.lerp(self.z, g, self.beta)
        norm = torch.linalg.vector_norm(self.z, dim=1, keepdim=True)
        move = self.length / norm.pow(self.norm_power).clamp(min=self.eps) * self.z
        if self.eps == 0:
            move = torch.where(norm > 0, move, 0.0)
        self.at = self.w - move / self.beta if self.extrapolate else self.w - move
        self.w = self.w - move


class AdamPlusWalk:
    """Walk of `BatchedAdamPlus`."""

    def __init__(self, problem: Problem, method: BatchedAdamPlus, batches: tuple[int, int], generator: torch.Generator):
        self.problem: Problem = problem
        self.method: BatchedAdamPlus = method
        self.generator: torch.Generator = generator
        self.first: int = batches[0]
        self.later: int = batches[1]
        self.evaluations: int = 0
        self.over: bool = False

    @property
    def point(self) -> Tensor:
        """The w of Algorithm 1."""
        return self.method.w

    def step(self) -> None:
        """Take one step."""
        batch = self.first if self.evaluations == 0 else self.later
        self.method.step(self.problem.sample(self.method.at, batch, self.generator)[0])
        self.evaluations += batch


class OptimizerWalk:
    """Walk of a torch optimizer whose parameter holds one run per row."""

    def __init__(
        self,
        problem: Problem,
        start: Tensor,
        make: Callable[[list[nn.Parameter]], Any],
        batches: tuple[int, ...],
        generator: torch.Generator,
    ):
        self.problem: Problem = problem
        self.batches: tuple[int, ...] = batches
        self.generator: torch.Generator = generator
        self.w: nn.Parameter = nn.Parameter(start.clone())
        self.optimizer: Any = make([self.w])
        self.evaluations: int = 0

    @property
    def point(self) -> Tensor:
        """The value of the parameter."""
        return self.w.detach()

    @property
    def over(self) -> bool:
        """Whether every run has ended. False for methods without an end."""
        return "finished" in self.optimizer.progress and bool(self.optimizer.finished.all())

    def step(self) -> None:
        """Take one step."""
        batch = self._batch()
        sample = self.problem.draw(len(self.w), batch, self.generator)

        def closure() -> float:
            self.w.grad = self.problem.gradient(self.w.detach(), sample)
            self.evaluations += batch
            return 0.0

        if isinstance(self.optimizer, PairedGradients):
            self.optimizer.step(closure)
        else:
            closure()
            self.optimizer.step()

    def _batch(self) -> int:
        """Batch size of the next step, for methods with large batches or levels too."""
        if len(self.batches) == 1:
            return self.batches[0]
        level = getattr(self.optimizer, "level_next", None)
        return self.batches[(0 if self.optimizer.large_batch_next else 1) if level is None else level]


@dataclass(frozen=True)
class Limits:
    """Limits at which a walk stops."""

    steps: int
    evaluations: float = math.inf
    beyond: float = 1.0
    """Factor by which runs continue beyond what their mean needed: a resampled choice of runs may need more."""


@dataclass
class Curve:
    """‖∇F‖ of every run along a walk."""

    evaluations: np.ndarray
    """Evaluations at each computation of ‖∇F‖."""
    norms: np.ndarray
    """‖∇F‖, of shape (computations, runs)."""

    def reached(self, epsilon: float, weights: np.ndarray | None = None) -> np.ndarray:
        """Evaluations until the weighted mean over runs is at most ε, per row of weights; NaN if never."""
        weights = np.full((1, self.norms.shape[1]), 1 / self.norms.shape[1]) if weights is None else weights
        if not len(self.evaluations):
            return np.full(len(weights), math.nan)
        below = weights @ self.norms.T <= epsilon
        first = self.evaluations[below.argmax(1)].astype(float)
        return np.where(below.any(1), first, math.nan)


@torch.inference_mode()
def walk(begin: Begin, problem: Problem, epsilon: float, runs: int, seed: int, limits: Limits) -> Curve:
    """Walk until the mean is at most ε, then `beyond` times as far; stop earlier at a limit."""
    generator = torch.Generator().manual_seed(seed)
    method = begin(problem, problem.start(runs, generator), generator)
    counts: list[int] = []
    norms: list[np.ndarray] = []
    limit, next_look = limits.evaluations, 0.0
    for _ in range(limits.steps):
        method.step()
        ending = method.over or method.evaluations >= limit
        if method.evaluations < next_look and not ending:
            continue
        norm = torch.linalg.vector_norm(problem.gradient(method.point), dim=1)
        mean = float(norm.mean())
        if not math.isfinite(mean):
            break
        counts.append(method.evaluations)
        norms.append(norm.numpy())
        if mean <= epsilon:
            limit = min(limit, limits.beyond * method.evaluations)
        if ending or method.evaluations >= limit:
            break
        next_look = APART * method.evaluations
    return Curve(np.array(counts), np.array(norms).reshape(len(counts), runs))
