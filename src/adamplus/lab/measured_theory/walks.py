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
"""Runs are looked at whenever their evaluations have grown by so much."""


class Walk(Protocol):
    """A method on its way, many runs at once."""

    evaluations: int
    """Gradients of single samples that each run has taken."""

    @property
    def point(self) -> Tensor:
        """The points that the method would give as its result."""
        ...

    @property
    def over(self) -> bool:
        """Whether the method has stopped by itself, in every run."""
        ...

    def step(self) -> None:
        """Take one step."""
        ...


Begin = Callable[[Problem, Tensor, torch.Generator], Walk]


class BatchedAdamPlus:
    """The family (any p and a) on the rows of w; tested against `AdamPlusReference`.

    Args:
        w: where the runs start, of shape (runs, dim).
        lr: α.
        beta: β.
        beta_power: a.
        norm_power: p.
        eps: ε₀.
        extrapolate: take gradients at ŵ; without, at w, and z is a plain moving average.
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
        self.w = self.at = w.clone()
        """w, and where the next gradient is to be taken."""
        self.z: Tensor | None = None
        self.beta, self.length = beta, lr * beta**beta_power
        self.norm_power, self.eps, self.extrapolate = norm_power, eps, extrapolate

    def step(self, g: Tensor) -> None:
        """One step of every run, with the gradient at `at`."""
        self.z = g if self.z is None else torch.lerp(self.z, g, self.beta)
        norm = torch.linalg.vector_norm(self.z, dim=1, keepdim=True)
        move = self.length / norm.pow(self.norm_power).clamp(min=self.eps) * self.z
        if self.eps == 0:
            move = torch.where(norm > 0, move, 0.0)
        self.at = self.w - move / self.beta if self.extrapolate else self.w - move
        self.w = self.w - move


class AdamPlusWalk:
    """Adam⁺ and its kin."""

    def __init__(self, problem: Problem, method: BatchedAdamPlus, batches: tuple[int, int], generator: torch.Generator):
        self.problem, self.method, self.generator = problem, method, generator
        self.first, self.later = batches
        self.evaluations = 0
        self.over = False

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
    """A torch optimizer, whose parameter holds a run in each row."""

    def __init__(
        self,
        problem: Problem,
        start: Tensor,
        make: Callable[[list[nn.Parameter]], Any],
        batches: tuple[int, ...],
        generator: torch.Generator,
    ):
        self.problem, self.batches, self.generator = problem, batches, generator
        self.w = nn.Parameter(start.clone())
        self.optimizer = make([self.w])
        self.evaluations = 0

    @property
    def point(self) -> Tensor:
        """What the parameter holds."""
        return self.w.detach()

    @property
    def over(self) -> bool:
        """Of those methods that know an end."""
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
        """Of the large batches and the levels that some methods have."""
        if len(self.batches) == 1:
            return self.batches[0]
        level = getattr(self.optimizer, "level_next", None)
        return self.batches[(0 if self.optimizer.large_batch_next else 1) if level is None else level]


@dataclass(frozen=True)
class Limits:
    """When a walk is given up."""

    steps: int
    evaluations: float = math.inf
    beyond: float = 1.0
    """Runs go on for so many times what their mean needed: another choice of them may need more."""


@dataclass
class Curve:
    """‖∇F‖ of every run, along the way."""

    evaluations: np.ndarray
    """At each look."""
    norms: np.ndarray
    """(looks, runs)."""

    def reached(self, epsilon: float, weights: np.ndarray | None = None) -> np.ndarray:
        """Evaluations until the weighted mean over runs is at most ε, for each row of weights; NaN where it is not."""
        weights = np.full((1, self.norms.shape[1]), 1 / self.norms.shape[1]) if weights is None else weights
        if not len(self.evaluations):
            return np.full(len(weights), math.nan)
        below = weights @ self.norms.T <= epsilon
        first = self.evaluations[below.argmax(1)].astype(float)
        return np.where(below.any(1), first, math.nan)


@torch.inference_mode()
def walk(begin: Begin, problem: Problem, epsilon: float, runs: int, seed: int, limits: Limits) -> Curve:
    """Walk until the mean is at most ε and then on, `beyond` times as far, or until a limit."""
    generator = torch.Generator().manual_seed(seed)
    going = begin(problem, problem.start(runs, generator), generator)
    looks: list[int] = []
    norms: list[np.ndarray] = []
    limit, look = limits.evaluations, 0.0
    for _ in range(limits.steps):
        going.step()
        ending = going.over or going.evaluations >= limit
        if going.evaluations < look and not ending:
            continue
        found = torch.linalg.vector_norm(problem.gradient(going.point), dim=1)
        mean = float(found.mean())
        if not math.isfinite(mean):
            break
        looks.append(going.evaluations)
        norms.append(found.numpy())
        if mean <= epsilon:
            limit = min(limit, limits.beyond * going.evaluations)
        if ending or going.evaluations >= limit:
            break
        look = APART * going.evaluations
    return Curve(np.array(looks), np.array(norms).reshape(len(looks), runs))
