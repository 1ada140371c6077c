"""The slope of log evaluations against log 1/ε, and what the choice of runs leaves unsure about it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .measure import Curve

RESAMPLES = 1000


@dataclass(frozen=True)
class Slope:
    """A measured exponent, with a 95 % interval."""

    value: float
    low: float
    high: float


def fit(epsilons: Sequence[float], evaluations: np.ndarray) -> np.ndarray:
    """The slope by least squares, for every row of evaluations; where some are NaN, of the others."""
    x = np.log(1 / np.asarray(epsilons))
    y = np.log(evaluations)
    there = np.isfinite(y)
    count = there.sum(-1)
    y = np.where(there, y, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = np.where(there, x - ((x * there).sum(-1) / count)[..., None], 0.0)
        found = (centred * y).sum(-1) / (centred**2).sum(-1)
    return np.where(count >= 2, found, math.nan)


def resampled(curve: Curve, epsilon: float, random: np.random.Generator) -> np.ndarray:
    """Evaluations until ε of runs that are drawn again with replacement, `RESAMPLES` times.

    Where the runs drawn do not reach ε before the end of their curve, what they took until there stands for it: it is
    the least that they would need.
    """
    runs = curve.norms.shape[1]
    weights = random.multinomial(runs, np.full(runs, 1 / runs), RESAMPLES) / runs
    found = curve.reached(epsilon, weights)
    return np.where(np.isfinite(found), found, curve.evaluations[-1])


def slope(epsilons: Sequence[float], curves: Sequence[Curve], seed: int = 0) -> Slope | None:
    """The slope over those ε that were reached, and a bootstrap over runs; nothing where fewer than two were."""
    reached = [(e, curve) for e, curve in zip(epsilons, curves, strict=True) if np.isfinite(curve.reached(e)).all()]
    if len(reached) < 2:
        return None
    random = np.random.default_rng(seed)
    used = [e for e, _ in reached]
    drawn = [resampled(curve, e, random) for e, curve in reached]
    value = fit(used, np.array([float(curve.reached(e)[0]) for e, curve in reached]))
    low, high = np.quantile(fit(used, np.stack(drawn, axis=1)), [0.025, 0.975])
    return Slope(float(value), float(low), float(high))
