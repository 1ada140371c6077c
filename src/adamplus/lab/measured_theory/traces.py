"""Walks of all candidates of a method at once: ‖∇F‖ along them, and which candidates continue."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ._methods import Rule, Sampler
from .cases import BEYOND, CRITERIA
from .walks import Curve

LOOK = 1.02
"""Factor by which steps grow between two computations of ‖∇F‖."""
NEAR = 2.5
"""A candidate that may still come within this factor of ε continues: on the valley's floor ‖∇F‖ is 2ε to its end."""


@dataclass
class Trace:
    """‖∇F‖ along a walk of candidates × runs."""

    steps: list[int] = field(default_factory=list)
    evaluations: list[np.ndarray] = field(default_factory=list)
    """Per look: evaluations of each candidate; NaN after it was dropped."""
    norms: list[np.ndarray] = field(default_factory=list)
    """Per look: ‖∇F‖, of shape (points, candidates, runs)."""
    type1: list[np.ndarray] = field(default_factory=list)
    """Per look: mean over runs of Σ_i ‖g_{1:T,i}‖ of each candidate."""
    type2: list[np.ndarray] = field(default_factory=list)
    """Per look: mean over runs of Σ_t ‖z_t‖ of each candidate."""

    def curve(self, candidate: int, point: int, criterion: str) -> Curve:
        """Curve of one candidate under a criterion."""
        evaluations = np.array([look[candidate] for look in self.evaluations])
        alive = np.isfinite(evaluations)
        norms = np.array([look[point, candidate] for look in self.norms]).reshape(len(evaluations), -1)
        if criterion == "random":
            norms = running_means(np.array(self.steps), norms)
        return Curve(evaluations[alive], norms[alive])


def running_means(steps: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Means of ‖∇F‖ over all steps so far. The steps between two looks count as the later one."""
    return np.cumsum(norms * np.diff(steps, prepend=0)[:, None], axis=0) / steps[:, None]


@dataclass
class Look:
    """What is known of the candidates that are alive at one computation of ‖∇F‖."""

    step: int
    evaluations: np.ndarray
    means: np.ndarray
    """Mean ‖∇F‖ over runs, of shape (points, candidates)."""
    sums: np.ndarray
    """Sum over steps of the mean ‖∇F‖ over runs of the theorem's iterate."""

    def judged(self, criterion: str) -> np.ndarray:
        """Mean ‖∇F‖ that a criterion compares with ε."""
        if criterion == "random":
            return self.sums / self.step
        return self.means[0] if criterion == "last" else self.means[1:-1].min(0)


class Rivalry:
    """Which candidates continue while settings are tuned: those that may still come near the best.

    Args:
        epsilon: the target.
        steps: number of steps of a walk.
    """

    def __init__(self, epsilon: float, steps: int) -> None:
        self.epsilon: float = epsilon
        self.steps: int = steps
        self.needed: dict[str, float] = dict.fromkeys(CRITERIA, math.inf)
        """Fewest evaluations so far under each criterion."""

    def staying(self, look: Look) -> np.ndarray:
        """Mask of the candidates that continue."""
        staying = np.zeros(len(look.evaluations), dtype=bool)
        for criterion in CRITERIA:
            judged = look.judged(criterion)
            reached = look.evaluations[judged <= self.epsilon]
            self.needed[criterion] = min(self.needed[criterion], reached.min(initial=math.inf))
            limit = BEYOND * self.needed[criterion]
            if criterion == "random":  # if ‖∇F‖ were 0 from now on, the mean would be ε at this step
                least = np.maximum(look.sums / self.epsilon, look.step)
                hopeless = (least > self.steps) | (least / look.step * look.evaluations > limit)
            else:  # even if it falls as 1/t, it will not be near ε at the last step
                near = NEAR * self.epsilon
                hopeless = (look.step >= self.steps / 16) & (judged > near * self.steps / look.step)
            staying |= (look.evaluations < limit) & ~hopeless
        return staying


class Measuring:
    """Which candidates continue while they are measured: until every criterion has what its bootstrap needs.

    Args:
        epsilon: the target.
        tuned: under each criterion the evaluations that each candidate needed in tuning; NaN if it was not chosen.
        patience: multiple of these evaluations that a candidate may take.
    """

    def __init__(self, epsilon: float, tuned: dict[str, np.ndarray], patience: float) -> None:
        self.epsilon: float = epsilon
        self.limits: dict[str, np.ndarray] = {criterion: patience * values for criterion, values in tuned.items()}

    def staying(self, look: Look) -> np.ndarray:
        """Mask of the candidates that continue."""
        staying = np.zeros(len(look.evaluations), dtype=bool)
        for criterion, limits in self.limits.items():
            reached = look.judged(criterion) <= self.epsilon
            limits[reached] = np.fmin(limits[reached], BEYOND * look.evaluations[reached])
            staying |= look.evaluations < limits  # False if the limit is NaN
        self.limits = {criterion: limits[staying] for criterion, limits in self.limits.items()}
        return staying


@torch.inference_mode()
def walk(
    rule: Rule, sampler: Sampler, weights: tuple[float, ...], steps: int, watch: Rivalry | Measuring, *, growth: bool
) -> Trace:
    """Walk until no candidate continues, or for a number of steps.

    Args:
        rule: the method, with its candidates.
        sampler: the noise of the runs.
        weights: weights of the averages of the iterates.
        steps: number of steps.
        watch: decides which candidates continue.
        growth: record the sums of type I and type II.
    """
    averages = [rule.at] * len(weights)
    count, runs = len(rule.evaluations), sampler.runs
    alive = np.ones(count, dtype=bool)
    trace = Trace()
    sums: Tensor | None = None
    squares, lengths = torch.zeros_like(rule.at), torch.zeros(len(rule.at), dtype=rule.at.dtype)
    next_look = 1
    while rule.steps < steps and alive.any():
        rule.step(sampler)
        averages = [torch.lerp(mean, rule.at, weight) for mean, weight in zip(averages, weights, strict=True)]
        if growth:
            squares = torch.addcmul(squares, rule.g, rule.g)
            lengths = lengths + torch.linalg.vector_norm(rule.estimate, dim=1)
        if rule.steps < next_look and rule.steps < steps:
            continue
        next_look = math.floor(LOOK * rule.steps) + 1
        points = [rule.at, *([rule.output] if rule.averages_itself else averages), rule.output]
        norms = torch.stack([torch.linalg.vector_norm(sampler.problem.gradient(x), dim=1) for x in points])
        norms = norms.view(len(points), -1, runs)
        between = rule.steps - (trace.steps[-1] if trace.steps else 0)
        sums = between * norms[-1] if sums is None else sums + between * norms[-1]
        trace.steps.append(rule.steps)
        trace.evaluations.append(_all(rule.evaluations, alive))
        trace.norms.append(np.moveaxis(_all(np.moveaxis(norms.numpy(), 1, 0), alive), 0, 1))
        if growth:
            trace.type1.append(_all(squares.sqrt().sum(1).view(-1, runs).mean(1).numpy(), alive))
            trace.type2.append(_all(lengths.view(-1, runs).mean(1).numpy(), alive))
        means = norms.mean(2).numpy()
        staying = watch.staying(Look(rule.steps, rule.evaluations, means, sums.mean(1).numpy()))
        staying &= np.isfinite(means).all(0)
        if not staying.all():
            alive[alive] = staying
            rows = torch.from_numpy(np.repeat(staying, runs))
            rule.keep(staying)
            averages = [mean[rows] for mean in averages]
            squares, lengths, sums = squares[rows], lengths[rows], sums[torch.from_numpy(staying)]
    return trace


def _all(values: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Values of the candidates that are alive, and NaN for all others."""
    filled = np.full((len(alive), *values.shape[1:]), math.nan)
    filled[alive] = values
    return filled
