"""The methods of the paper's Table 1: their assumptions, their proved exponents, and their candidate settings.

Every method chooses among 36 candidates: six step sizes, three batches and two values of one more setting. Batches are
1/64, 1/8 and 1 of σ²/ε², the number of samples whose mean has error ε (1, 8 and 64 samples for stagewise AdaGrad). A
method with a large batch takes this as its large batch, and its other batches in its paper's proportions. Step sizes
are six powers of 2, in units that follow ε and L as in the method's own paper. A search among powers of 4 chose the
six, for every method.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from adamplus import rivals
from adamplus.theory.problems import Problem

from .walks import AdamPlusWalk, BatchedAdamPlus, Begin, OptimizerWalk, Walk

SHARES = (1 / 64, 1 / 8, 1.0)
"""Batch sizes, as shares of σ²/ε²."""


@dataclass(frozen=True)
class Candidate:
    """Settings that a method may choose: as text, and as a function that begins a walk."""

    settings: str
    begin: Begin


@dataclass(frozen=True)
class Scale:
    """Problem, ε and batch share, from which a method makes its settings."""

    problem: Problem
    epsilon: float
    share: float
    """Batch size as a share of σ²/ε²."""

    @property
    def batch(self) -> int:
        """Samples per step."""
        return whole(self.share * (self.problem.sigma / self.epsilon) ** 2)


MakeCandidate = Callable[[Scale, float, float], Candidate]
"""Function of a scale, a factor of the step size, and a value of the method's own setting."""


@dataclass(frozen=True)
class Method:
    """One row of Table 1."""

    name: str
    source: str
    individual_smooth: bool
    hessian_lipschitz: bool
    exponent: float
    """Proved number of evaluations in the worst case, as a power of 1/ε."""
    data_dependent: str
    make: MakeCandidate
    steps: tuple[float, ...]
    """Factors of the step size."""
    own: tuple[float, ...]
    """Values of one more setting."""

    def candidates(self, problem: Problem, epsilon: float) -> Iterator[Candidate]:
        """Candidates from the middle of the step sizes outwards: an early good one lets later ones stop early."""
        ordered = sorted(self.steps, key=lambda factor: abs(math.log(factor / self.steps[len(self.steps) // 2])))
        for factor, share, own in product(ordered, reversed(SHARES), self.own):
            yield self.make(Scale(problem, epsilon, share), factor, own)


def whole(number: float) -> int:
    """The nearest whole number of samples or steps, at least 1."""
    return max(1, round(number))


def powers(first: int) -> tuple[float, ...]:
    """Six powers of 2, from 2^first."""
    return tuple(2.0 ** (first + i) for i in range(6))


def optimizer_candidate(kind: Any, settings: dict[str, Any], batches: tuple[int, ...]) -> Candidate:
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


def _adam_type(second_moment: str) -> MakeCandidate:
    def make(scale: Scale, factor: float, own: float) -> Candidate:
        chosen = {"lr": factor, "betas": (own, 0.999), "second_moment": second_moment}
        return optimizer_candidate(rivals.GeneralizedAdam, chosen, (scale.batch,))

    return make


def _padam(scale: Scale, factor: float, own: float) -> Candidate:
    return optimizer_candidate(rivals.PAdam, {"lr": factor / scale.problem.L, "betas": (own, 0.999)}, (scale.batch,))


def _stagewise(scale: Scale, factor: float, own: float) -> Candidate:
    chosen = {"lr": factor, "gamma": own / scale.problem.L, "bound": scale.epsilon, "stage_steps": 1}
    # Its stages grow and thereby average the noise. Batches are 1, 8 and 64 for every ε: otherwise each of ε^−4 steps
    # would take ε^−2 samples.
    return optimizer_candidate(rivals.StagewiseAdaGrad, {**chosen, "norm_scope": "row"}, (whole(64 * scale.share),))


def _spider(scale: Scale, factor: float, own: float) -> Candidate:
    problem = scale.problem
    noise = scale.share**0.5 * problem.sigma  # smaller noise makes its batches, 2σ²/ε² and 2σ/(ε n₀), smaller
    recipe = rivals.SPIDER.recipe(scale.epsilon, problem.smoothness, noise, own)
    settings = {**recipe.settings, "lr": factor * recipe.settings["lr"], "length": factor * recipe.settings["length"]}
    return optimizer_candidate(rivals.SPIDER, {**settings, "norm_scope": "row"}, recipe.batches)


def _storm(scale: Scale, factor: float, own: float) -> Candidate:
    smoothness = scale.problem.smoothness
    # a = c η² with η near 1/ℓ, so the noise of d is a part of ε for every batch, like that of z below
    settings = {"lr": factor / smoothness, "w": 0.1, "c": own * scale.share * smoothness**2}
    return optimizer_candidate(rivals.STORM, {**settings, "norm_scope": "row"}, (scale.batch,))


def _snvrg(scale: Scale, factor: float, own: float) -> Candidate:
    loops = rivals.SNVRG.recipe(1.0, whole(own)).settings["loops"]
    large = scale.batch
    # the paper's ratio of B_l to B, without the powers of 6, which would make every B_l larger than B here
    batches = (large, *(whole(large / math.prod(loops[:level]) ** 2) for level in range(len(loops))))
    return optimizer_candidate(rivals.SNVRG, {"lr": factor / scale.problem.smoothness, "loops": loops}, batches)


def _prox_sarah(scale: Scale, factor: float, own: float) -> Candidate:
    small = whole(scale.batch**0.5)
    recipe = rivals.ProxSARAH.recipe(scale.problem.smoothness, whole(own * small), small, scale.batch)
    settings = {**recipe.settings, "lr": factor * recipe.settings["lr"]}
    return optimizer_candidate(rivals.ProxSARAH, settings, recipe.batches)


def _sgd(scale: Scale, factor: float, own: float) -> Candidate:
    problem, batch = scale.problem, scale.batch
    recipe = rivals.EscapingSGD.recipe(scale.epsilon, problem.L_H, problem.sigma / batch**0.5, factor)
    settings = {**recipe.settings, "radius": own * recipe.settings["radius"], "norm_scope": "row"}
    return optimizer_candidate(rivals.EscapingSGD, settings, (batch,))


def _family(beta_power: float, norm_power: float, proved_eps: bool) -> MakeCandidate:
    def make(scale: Scale, factor: float, own: float) -> Candidate:
        beta = min(1.0, own * scale.share)  # the noise of z is then a part of ε for every batch
        # the step of ŵ is η/β, which is factor/L if ‖z‖ = ε
        lr = factor * scale.epsilon**norm_power * beta ** (1 - beta_power) / scale.problem.L
        eps = 2 * beta**beta_power if proved_eps else 1e-8
        chosen = {"lr": lr, "beta": beta, "beta_power": beta_power, "norm_power": norm_power, "eps": eps}
        return adam_plus_candidate(chosen, (max(scale.batch, whole(1 / beta)), scale.batch))

    return make


ADAM_TYPE: dict[str, Any] = {
    "individual_smooth": False,
    "hessian_lipschitz": False,
    "exponent": 4.0,
    "data_dependent": "type I",
}
TWO_POINTS: dict[str, Any] = {
    "individual_smooth": True,
    "hessian_lipschitz": False,
    "exponent": 3.0,
    "data_dependent": "–",
}
HESSIAN = {"individual_smooth": False, "hessian_lipschitz": True}
METHODS = {
    "amsgrad": Method(
        "Generalized Adam: AMSGrad",
        "Chen, Liu, Sun, Hong 2018",
        make=_adam_type("amsgrad"),
        steps=powers(-6),
        own=(0.9, 0.99),
        **ADAM_TYPE,
    ),
    "adafom": Method(
        "Generalized Adam: AdaFom",
        "Chen, Liu, Sun, Hong 2018",
        make=_adam_type("adafom"),
        steps=powers(-4),
        own=(0.9, 0.99),
        **ADAM_TYPE,
    ),
    "padam": Method("PAdam", "Chen, Zhou, … 2018", make=_padam, steps=powers(-7), own=(0.9, 0.99), **ADAM_TYPE),
    "stagewise": Method(
        "Stagewise AdaGrad", "Chen, Yuan, … 2019", make=_stagewise, steps=powers(-2), own=(0.5, 8), **ADAM_TYPE
    ),
    "spider": Method("SPIDER", "Fang, Li, … 2018", make=_spider, steps=powers(-1), own=(1, 4), **TWO_POINTS),
    "storm": Method("STORM", "Cutkosky, Orabona 2019", make=_storm, steps=powers(-1), own=(1, 10), **TWO_POINTS),
    "snvrg": Method("SNVRG", "Zhou, Xu, Gu 2018", make=_snvrg, steps=powers(-3), own=(3, 4), **TWO_POINTS),
    "prox-sarah": Method(
        "Prox-SARAH", "Pham, Nguyen, … 2020", make=_prox_sarah, steps=powers(-2), own=(1, 4), **TWO_POINTS
    ),
    "sgd": Method(
        "SGD",
        "Fang, Lin, Zhang 2019",
        exponent=3.5,
        data_dependent="–",
        make=_sgd,
        steps=powers(-5),
        own=(1, 4),
        **HESSIAN,
    ),
    "nigt": Method(
        "Normalized momentum SGD (NIGT)",
        "Cutkosky, Mehta 2020",
        exponent=3.5,
        data_dependent="–",
        make=_family(1.0, 1.0, False),
        steps=powers(1),
        own=(0.25, 1),
        **HESSIAN,
    ),
    "adam-plus": Method(
        "Adam⁺ (p = 1/2, a = 1; Theorem 2)",
        "Adam⁺",
        exponent=4.5,
        data_dependent="type II",
        make=_family(1.0, 0.5, False),
        steps=powers(1),
        own=(0.25, 1),
        **HESSIAN,
    ),
    "adam-plus-fast": Method(
        "Adam⁺ (p = 1/2, a = 4/3; appendix)",
        "Adam⁺",
        exponent=3.625,
        data_dependent="–",
        make=_family(4 / 3, 0.5, True),
        steps=powers(1),
        own=(0.25, 1),
        **HESSIAN,
    ),
    "nadam-plus": Method(
        "Nadam⁺ (p = 2/3, a = 4/3; Theorem 3)",
        "Adam⁺",
        exponent=3.5,
        data_dependent="–",
        make=_family(4 / 3, 2 / 3, True),
        steps=powers(1),
        own=(0.25, 1),
        **HESSIAN,
    ),
}
