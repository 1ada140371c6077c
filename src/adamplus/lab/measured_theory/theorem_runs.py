"""Methods with the settings under which their rates are proved, and nothing tuned: what `adamplus theory rate` runs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from adamplus import rivals, theory
from adamplus.theory import Settings
from adamplus.theory.problems import Problem

from .methods import Candidate, optimizer_candidate, rows_candidate, whole


@dataclass(frozen=True)
class Proved:
    """A method under a theorem."""

    name: str
    exponent: float
    settings: Callable[[Problem, float, float], tuple[Candidate, int | None]]
    """Of a problem, ε and Δ: how to run, and how many evaluations are proved to be enough, where a number is."""


def _of(settings: Settings) -> tuple[Candidate, int]:
    chosen = {name: float(value) for name, value in settings.optimizer().items()}
    return rows_candidate(chosen, (settings.initial_batch, settings.batch)), settings.evaluations


def _theorem3(problem: Problem, epsilon: float, gap: float) -> tuple[Candidate, int]:
    return _of(theory.theorem3(epsilon, problem.L, problem.L_H, gap, problem.sigma, check=True))


def _fast_rate(problem: Problem, epsilon: float, gap: float) -> tuple[Candidate, int]:
    return _of(theory.fast_rate(epsilon, problem.L, problem.L_H, problem.G, gap, problem.sigma, check=True))


def _nigt(problem: Problem, epsilon: float, gap: float) -> tuple[Candidate, int | None]:
    """T = Δ L_H^(1/2) σ² ε^−3.5/m, the theorem's without its constants, with the batch m = ε^−1.5 of Theorem 3."""
    batch = whole(epsilon**-1.5)
    T = math.ceil(gap * problem.L_H**0.5 * problem.sigma**2 / (epsilon**3.5 * batch))
    settings = theory.nigt(T, problem.L, problem.L_H, gap, problem.sigma, batch=batch)
    return _of(settings)[0], None


def _sgd(problem: Problem, epsilon: float, gap: float) -> tuple[Candidate, int | None]:
    recipe = rivals.EscapingSGD.recipe(epsilon, problem.L_H, problem.sigma)
    settings = {**recipe.settings, "lr": min(recipe.settings["lr"], 1 / problem.L), "norm_scope": "row"}
    return optimizer_candidate(rivals.EscapingSGD, settings, recipe.batches), None


PROVED = {
    "theorem-3": Proved("Nadam⁺, Theorem 3", 3.5, _theorem3),
    "fast": Proved("Adam⁺, theorem of the appendix", 3.625, _fast_rate),
    "nigt": Proved("NIGT", 3.5, _nigt),
    "sgd": Proved("SGD (Fang, Lin, Zhang)", 3.5, _sgd),
}
