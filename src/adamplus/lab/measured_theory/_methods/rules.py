"""The methods of Table 1, each for many candidates and runs at once, tested against `adamplus.rivals`.

Row c·R + r of every tensor is run r of R with the settings of candidate c. A setting is a column with one value per
row, so that one call moves all candidates. The classes of `adamplus.rivals` hold one setting for all rows, and would
need a call per candidate: the search of Table 1 would take hours.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adamplus.theory.problems import DoubleWell

BLOCK = 256
"""Draws of noise that are made in one call."""


class Sampler:
    """Stochastic gradients for candidates × runs. Run r has the same noise under every candidate."""

    def __init__(self, problem: DoubleWell, runs: int, seed: int) -> None:
        self.problem: DoubleWell = problem
        self.runs: int = runs
        self.generator: torch.Generator = torch.Generator().manual_seed(seed)
        self.start: Tensor = problem.start(runs, self.generator)
        self._drawn = iter(())

    def gradient(self, x: Tensor, batch: float | Tensor) -> Tensor:
        """Return gradients of `batch` new samples at the rows of x; a tensor has one batch per candidate."""
        g = self.problem.gradient(x)
        # a cos κx + b sin κx has the law of one normal number, which does not depend on x
        noise = self._normal() * (self.problem.sigma / self.problem.dim**0.5) / batch**0.5
        g.view(-1, self.runs, self.problem.dim).add_(noise)
        return g

    def pair(self, x: Tensor, y: Tensor, batch: float) -> tuple[Tensor, Tensor]:
        """Return gradients of the same new samples at the rows of x and of y."""
        both = torch.cat([x, y])  # one call takes less time than two
        a, b = ((self._normal() / batch**0.5).repeat(len(both) // self.runs, 1) for _ in range(2))
        at_x, at_y = self.problem.gradient(both, (a, b)).split(len(x))
        return at_x, at_y

    def _normal(self) -> Tensor:
        drawn = next(self._drawn, None)
        if drawn is None:
            block = torch.randn(BLOCK, *self.start.shape, generator=self.generator, dtype=self.start.dtype)
            self._drawn = iter(block)
            drawn = next(self._drawn)
        return drawn


class Rule(ABC):
    """Base class of a method at work on all rows.

    Args:
        start: starting points of the runs, of shape (runs, dim).
        settings: one dictionary per candidate.
    """

    averages_itself = False
    """Whether `output` is a moving average of `at`."""

    def __init__(self, start: Tensor, settings: list[dict[str, Any]]) -> None:
        self.runs: int = len(start)
        self.at: Tensor = start.repeat(len(settings), 1)
        """The points at which the next gradients are taken."""
        self.g: Tensor = torch.zeros_like(self.at)
        """The last gradients of samples at `at`."""
        self.estimate: Tensor = self.g
        """The method's estimate of ∇F: z, v, m or g."""
        self.steps: int = 0
        self.evaluations: np.ndarray = np.zeros(len(settings))
        """Gradients of single samples that each run of a candidate has evaluated."""
        for name in settings[0]:
            values = torch.tensor([chosen[name] for chosen in settings], dtype=start.dtype)
            setattr(self, name, values.repeat_interleave(self.runs)[:, None])

    @property
    def output(self) -> Tensor:
        """The iterates that the method's theorem speaks of."""
        return self.at

    def keep(self, candidates: np.ndarray) -> None:
        """Continue with these candidates only, given as a mask."""
        rows, before = torch.from_numpy(np.repeat(candidates, self.runs)), len(self.at)
        for name, value in vars(self).items():
            setattr(self, name, _rows_of(value, rows, before))
        self.evaluations = self.evaluations[candidates]

    def step(self, sampler: Sampler) -> None:
        """Take one step of every run."""
        self.evaluations = self.evaluations + self._step(sampler)
        self.steps += 1

    @abstractmethod
    def _step(self, sampler: Sampler) -> float | np.ndarray:
        """Take one step, and return the evaluations that it took: one number, or one per candidate."""


def _rows_of(value: Any, rows: Tensor, before: int) -> Any:
    if isinstance(value, list):
        return [_rows_of(item, rows, before) for item in value]
    return value[rows] if isinstance(value, Tensor) and value.ndim and len(value) == before else value


class OnePoint(Rule):
    """Base class of methods with one gradient and one batch size."""

    def __init__(self, start: Tensor, settings: list[dict[str, Any]], batch: int) -> None:
        super().__init__(start, settings)
        self.batch: int = batch

    def _step(self, sampler: Sampler) -> float | np.ndarray:
        self.g = self.estimate = sampler.gradient(self.at, self.batch)
        self._move()
        return self.batch

    @abstractmethod
    def _move(self) -> None:
        """Move `at` by the gradients g."""


class Family(OnePoint):
    """Algorithm 1 for any p and a, with gradients at ŵ or, without extrapolation, at w. Settings: lr, beta, eps."""

    lr: Tensor
    beta: Tensor
    eps: Tensor

    def __init__(
        self,
        start: Tensor,
        settings: list[dict[str, Any]],
        batch: int,
        *,
        beta_power: float,
        norm_power: float,
        extrapolate: bool = True,
    ) -> None:
        super().__init__(start, settings, batch)
        self.first: np.ndarray = np.array([max(batch, round(1 / chosen["beta"])) for chosen in settings])
        self.averages_itself = extrapolate
        self.extrapolate: bool = extrapolate
        self.w: Tensor = self.at
        self.z: Tensor = self.g
        self.length: Tensor = self.lr * self.beta**beta_power
        self.norm_power: float = norm_power
        self.ahead: Tensor = 1 / self.beta

    @property
    def output(self) -> Tensor:
        """The w of Algorithm 1."""
        return self.w

    def _step(self, sampler: Sampler) -> float | np.ndarray:
        if self.steps:
            return super()._step(sampler)
        self.g = self.estimate = sampler.gradient(self.at, torch.from_numpy(self.first)[:, None, None])
        self._advance()
        return self.first

    def _move(self) -> None:
        self.estimate = torch.lerp(self.z, self.g, self.beta)
        self._advance()

    def _advance(self) -> None:
        self.z = self.estimate
        if self.norm_power:
            norm = torch.linalg.vector_norm(self.z, dim=1, keepdim=True)
            move = self.length / torch.maximum(norm**self.norm_power, self.eps) * self.z
        else:
            move = self.length * self.z
        self.at = self.w - self.ahead * move if self.extrapolate else self.w - move
        self.w = self.w - move


class SGD(OnePoint):
    """SGD with a constant step. Settings: lr."""

    lr: Tensor

    def _move(self) -> None:
        self.at = self.at - self.lr * self.g


class EscapingSGD(OnePoint):
    """SGD with the stopping rule of Fang, Lin and Zhang. Settings: lr, radius, ball_steps."""

    lr: Tensor
    radius: Tensor
    ball_steps: Tensor

    def __init__(self, start: Tensor, settings: list[dict[str, Any]], batch: int) -> None:
        super().__init__(start, settings, batch)
        self.anchor: Tensor = self.at
        self.mean: Tensor = torch.zeros_like(self.at)
        self.k: Tensor = torch.zeros_like(self.lr)
        self.finished: Tensor = torch.zeros_like(self.lr, dtype=torch.bool)

    def _move(self) -> None:
        moved = self.at - self.lr * self.g
        mean = self.mean + (self.at - self.mean) / (self.k + 1)
        left = torch.linalg.vector_norm(moved - self.anchor, dim=1, keepdim=True) > self.radius
        k = torch.where(left, 0.0, self.k + 1)
        ending = k >= self.ball_steps
        self.at = torch.where(self.finished, self.at, torch.where(ending, mean, moved))
        self.anchor = torch.where(left, moved, self.anchor)
        self.mean = torch.where(left, 0.0, mean)
        self.k = k
        self.finished = self.finished | ending


class AdamType(OnePoint):
    """Generalized Adam (AMSGrad, AdaFom) and PAdam. Settings: lr and gain = 1 − β₁; β₂ is 0.999."""

    lr: Tensor
    gain: Tensor

    def __init__(self, start: Tensor, settings: list[dict[str, Any]], batch: int, kind: str) -> None:
        super().__init__(start, settings, batch)
        self.kind: str = kind
        self.m: Tensor = torch.zeros_like(self.at)
        self.v: Tensor = torch.zeros_like(self.at)
        self.largest: Tensor = torch.zeros_like(self.at)

    def _move(self) -> None:
        t = self.steps + 1
        self.m = self.estimate = torch.lerp(self.m, self.g, self.gain)
        if self.kind == "adafom":
            self.v = torch.addcmul(self.v, self.g, self.g)
            second = self.v / t
        else:
            self.v = torch.addcmul(0.999 * self.v, self.g, self.g, value=0.001)
            second = self.largest = torch.maximum(self.largest, self.v)
        if self.kind == "padam":
            self.at = self.at - self.lr * self.m / (second.sqrt() + 1e-8) ** 0.25
        else:
            self.at = self.at - self.lr / t**0.5 * self.m / (second.sqrt() + 1e-8)


class StagewiseAdaGrad(OnePoint):
    """Stagewise AdaGrad with the stage lengths of its paper. Settings: lr, gamma."""

    lr: Tensor
    gamma: Tensor

    def __init__(self, start: Tensor, settings: list[dict[str, Any]], batch: int, bound: float) -> None:
        super().__init__(start, settings, batch)
        self.bound: float = bound
        self.anchor: Tensor = self.at
        self.total, self.squares, self.mean = (torch.zeros_like(self.at) for _ in range(3))
        self.stage: Tensor = torch.ones_like(self.lr)
        self.t: Tensor = torch.zeros_like(self.lr)

    @property
    def output(self) -> Tensor:
        """The result of the last stage, x_s."""
        return self.anchor

    def _move(self) -> None:
        g = self.g + (self.at - self.anchor) / self.gamma
        self.total = self.total + g
        self.squares = torch.addcmul(self.squares, g, g)
        mean = self.mean + (self.at - self.mean) / (self.t + 1)
        self.t = self.t + 1
        rate, lengths = self.lr / self.stage.sqrt(), self.squares.sqrt()
        at = self.anchor - rate * self.total / (self.bound + lengths)
        longest = (self.bound + lengths.amax(1, keepdim=True)) / 2
        ended = self.t >= 24 * self.gamma / rate * torch.maximum(longest, lengths.sum(1, keepdim=True))
        self.at = torch.where(ended, mean, at)
        self.anchor = torch.where(ended, mean, self.anchor)
        self.mean, going = torch.where(ended, 0.0, mean), ~ended
        self.total, self.squares, self.t = self.total * going, self.squares * going, self.t * going
        self.stage = self.stage + ended


class TwoPoints(Rule):
    """Base class of v = g(x_t) + keep · (v − g(x_{t−1})) on the same samples, and v = g(x_t) at a restart."""

    def __init__(self, start: Tensor, settings: list[dict[str, Any]], batches: tuple[int, int], period: float) -> None:
        super().__init__(start, settings)
        self.batches: tuple[int, int] = batches
        self.period: float = period
        self.previous: Tensor = self.at

    def _step(self, sampler: Sampler) -> float | np.ndarray:
        restart = self.steps % self.period == 0
        if restart:
            self.g = self.estimate = sampler.gradient(self.at, self.batches[0])
        else:
            self.g, before = sampler.pair(self.at, self.previous, self.batches[1])
            self.estimate = self.g + self._keep() * (self.estimate - before)
        self.previous = self.at
        self._move()
        return self.batches[0] if restart else 2 * self.batches[1]

    def _keep(self) -> float | Tensor:
        return 1.0

    @abstractmethod
    def _move(self) -> None:
        """Move `at` by the estimate."""


class SPIDER(TwoPoints):
    """SPIDER, option II. Settings: lr, length."""

    lr: Tensor
    length: Tensor

    def _move(self) -> None:
        norm = torch.linalg.vector_norm(self.estimate, dim=1, keepdim=True)
        self.at = self.at - torch.minimum(self.length / norm, self.lr) * self.estimate


class STORM(TwoPoints):
    """STORM. Settings: lr, c, and w, the initial value of Σ G²."""

    lr: Tensor
    c: Tensor
    w: Tensor

    def __init__(self, start: Tensor, settings: list[dict[str, Any]], batch: int) -> None:
        super().__init__(start, settings, (batch, batch), math.inf)
        self.sum: Tensor = self.w
        self.a: Tensor = torch.zeros_like(self.sum)

    def _keep(self) -> Tensor:
        return 1 - self.a

    def _move(self) -> None:
        self.sum = self.sum + self.g.square().sum(1, keepdim=True)
        eta = self.lr / self.sum ** (1 / 3)
        self.a = (self.c * eta**2).clamp(max=1)
        self.at = self.at - eta * self.estimate


class ProxSARAH(TwoPoints):
    """Prox-SARAH without a proximal term. Settings: lr, which is η γ."""

    lr: Tensor

    def _move(self) -> None:
        self.at = self.at - self.lr * self.estimate


class SNVRG(Rule):
    """SNVRG with nested reference points. Settings: lr."""

    lr: Tensor

    def __init__(
        self, start: Tensor, settings: list[dict[str, Any]], batches: tuple[int, ...], loops: tuple[int, ...]
    ) -> None:
        super().__init__(start, settings)
        self.batches: tuple[int, ...] = batches
        self.spans: list[int] = [math.prod(loops[level:]) for level in range(len(loops) + 1)]
        self.references: list[Tensor] = [self.at] * len(loops)
        self.gradients: list[Tensor] = [torch.zeros_like(self.at)] * (len(loops) + 1)

    def _step(self, sampler: Sampler) -> float | np.ndarray:
        level = next(i for i, span in enumerate(self.spans) if self.steps % self.spans[0] % span == 0)
        if level:
            self.g, reference = sampler.pair(self.at, self.references[level - 1], self.batches[level])
            new = self.g - reference
        else:
            self.g = new = sampler.gradient(self.at, self.batches[0])
        inner = len(self.references) - level
        self.gradients = [*self.gradients[:level], new, *[torch.zeros_like(new)] * inner]
        self.references = [*self.references[:level], *[self.at] * inner]
        self.estimate = sum(self.gradients[1 : level + 1], self.gradients[0])
        self.at = self.at - self.lr * self.estimate
        return 2 * self.batches[level] if level else self.batches[0]
