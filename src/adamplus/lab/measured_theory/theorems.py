"""Theorems' settings: as text for `adamplus theory settings`, and as runs for `adamplus theory rate`."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adamplus import rivals, theory
from adamplus.theory import ConditionWarning, Settings
from adamplus.theory.problems import Problem

from ..errors import InputError
from .methods import Candidate, adam_plus_candidate, optimizer_candidate, whole

THEOREMS: dict[str, Callable[..., Settings]] = {
    "1": theory.theorem1,
    "2": theory.theorem2,
    "3": theory.theorem3,
    "fast": theory.fast_rate,
    "nigt": theory.nigt,
    "remark": theory.adaptive_rate,
    "lemma4": theory.lemma4,
}
NEEDS: dict[str, tuple[str, ...]] = {
    "1": ("T", "L", "L_H", "G", "Delta", "sigma", "b", "initial_batch", "batch", "lr"),
    "2": ("T", "L", "L_H", "Delta", "sigma", "initial_batch", "batch", "lr"),
    "3": ("epsilon", "L", "L_H", "Delta", "sigma", "lr"),
    "fast": ("epsilon", "L", "L_H", "G", "Delta", "sigma", "lr"),
    "nigt": ("T", "L", "L_H", "Delta", "sigma", "initial_batch", "batch", "lr"),
    "remark": ("epsilon", "growth", "L", "L_H", "G", "Delta", "sigma", "batch", "lr"),
    "lemma4": ("epsilon", "L", "L_H", "Delta", "sigma", "initial_batch", "batch", "lr"),
}
OF_NORM_SUM = ("1", "remark")
"""Theorems whose bound needs Σ‖z‖."""
OPTIONAL = ("b", "initial_batch", "batch", "lr")
FLAGS = {
    "T": "--T",
    "epsilon": "--epsilon",
    "growth": "--growth",
    "L": "--L",
    "L_H": "--L-H",
    "G": "--G",
    "Delta": "--Delta",
    "sigma": "--sigma",
}


def theorem_settings(theorem: str, given: dict[str, Any], *, norm_sum: float | None, repaired: bool) -> str:
    """A theorem's settings, batches, evaluations, bound and conditions as text."""
    if norm_sum is not None and (theorem not in OF_NORM_SUM or not 0 <= norm_sum < math.inf):
        raise InputError(
            f"--norm-sum must be at least 0 and needs --theorem {' or '.join(OF_NORM_SUM)}, "
            f"got {norm_sum} for {theorem}"
        )
    try:
        return _describe(_settings(theorem, given, repaired), norm_sum)
    except ArithmeticError as error:
        problem = str(error.args[-1])  # the first may be an errno
        raise InputError(f"these constants give settings beyond the range of a float ({problem})") from None


def _settings(theorem: str, given: dict[str, Any], repaired: bool) -> Settings:
    """Settings of a theorem. Raises an InputError if a constant is missing or not used by the theorem."""
    if theorem not in THEOREMS:
        raise InputError(f"--theorem must be one of {', '.join(THEOREMS)}, got {theorem}")
    given = {name: value for name, value in given.items() if value is not None}
    needed = NEEDS[theorem]
    if missing := [FLAGS[name] for name in needed if name not in given and name not in OPTIONAL]:
        raise InputError(f"theorem {theorem} also needs {', '.join(missing)}")
    if idle := [FLAGS.get(name, f"--{name.replace('_', '-')}") for name in given if name not in needed]:
        raise InputError(f"theorem {theorem} does not use {', '.join(idle)}: leave it out")
    if repaired and theorem == "nigt":
        raise InputError("theorem nigt has no slips to repair: leave out --repaired")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditionWarning)  # violated conditions are printed with the settings
        try:
            return THEOREMS[theorem](**given, **({"repaired": True} if repaired else {}))
        except ValueError as error:
            raise InputError(str(error)) from None


def _describe(settings: Settings, norm_sum: float | None) -> str:
    """Settings, bound and conditions as text."""
    lines = [
        f"{settings.theorem}",
        "",
        f"  α, lr             {settings.lr:.6g}",
        f"  β                 {settings.beta:.6g}",
        f"  a, beta_power     {settings.beta_power:.6g}",
        f"  p, norm_power     {settings.norm_power:.6g}",
        f"  ε₀, eps           {settings.eps:.6g}",
        f"  T, steps          {settings.T:,}",
        f"  T₀, first batch   {settings.initial_batch:,}",
        f"  m, other batches  {settings.batch:,}",
        f"  evaluations       {settings.evaluations:,}",
        "",
        *_bound(settings, norm_sum),
        "",
        *(f"  {'holds' if holds else 'VIOLATED'}: {statement}" for statement, holds in settings.conditions),
    ]
    if settings.violations:
        lines.append(
            "  The bound is not proved for these settings: leave out --lr to get a rate that the theorem allows."
        )
    arguments = ", ".join(f"{name}={value:.6g}" for name, value in settings.optimizer().items())
    return "\n".join([*lines, "", f"  AdamPlus(model.parameters(), {arguments})"])


def _bound(settings: Settings, norm_sum: float | None) -> list[str]:
    if settings.power == 2 and norm_sum is None:
        return ["  The bound needs Σ‖z‖ of the run: pass --norm-sum, which AdamPlus.stats() reports."]
    bound = settings.bound(norm_sum=norm_sum)
    power = {1.0: "", 2.0: "²"}.get(settings.power, f"^{settings.power:.4g}")
    lines = [
        f"  (1/T) Σ E‖∇F(w_t)‖{power} ≤ {bound:.4g}",
        f"  so E‖∇F(w_τ)‖ ≤ {settings.gradient_norm(norm_sum=norm_sum):.4g} at a point drawn from the run",
    ]
    if settings.error_formula is not None:
        lines.append(f"  (1/T) Σ E‖z_t − ∇F(w_t)‖{power} ≤ {settings.error_bound():.4g}")
    return lines


@dataclass(frozen=True)
class Proved:
    """A method with the settings of a theorem."""

    name: str
    exponent: float
    make: Callable[[Problem, float, float], tuple[Candidate, int | None]]
    """Function of a problem, ε and Δ: the candidate, and the proved number of evaluations, if it is known."""


def _candidate(settings: Settings) -> tuple[Candidate, int]:
    chosen = {name: float(value) for name, value in settings.optimizer().items()}
    return adam_plus_candidate(chosen, (settings.initial_batch, settings.batch)), settings.evaluations


def _theorem3(problem: Problem, epsilon: float, gap: float) -> tuple[Candidate, int]:
    known = (problem.L, problem.L_H, gap, problem.sigma)
    return _candidate(theory.theorem3(epsilon, *known, repaired=True, check=True))


def _fast_rate(problem: Problem, epsilon: float, gap: float) -> tuple[Candidate, int]:
    known = (problem.L, problem.L_H, problem.G, gap, problem.sigma)
    return _candidate(theory.fast_rate(epsilon, *known, repaired=True, check=True))


def _nigt(problem: Problem, epsilon: float, gap: float) -> tuple[Candidate, int | None]:
    """T = Δ L_H^(1/2) σ² ε^−3.5/m, as in the theorem but without its constants, and m = ε^−1.5 as in Theorem 3."""
    batch = whole(epsilon**-1.5)
    T = math.ceil(gap * problem.L_H**0.5 * problem.sigma**2 / (epsilon**3.5 * batch))
    settings = theory.nigt(T, problem.L, problem.L_H, gap, problem.sigma, batch=batch)
    return _candidate(settings)[0], None


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
