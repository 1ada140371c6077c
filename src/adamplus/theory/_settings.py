"""The result of a theorem: the settings of a run, the theorem's conditions, and the bound that it proves."""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

REMEDY = "leave out `lr` and the constants to get values that the theorem allows"


class ConditionWarning(UserWarning):
    """Warning that a theorem's conditions do not hold for the settings that were given.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as warned:
        ...     warnings.simplefilter("always")
        ...     settings = adamplus.theory.theorem2(1000, L=1, L_H=1, Delta=1, sigma=1, lr=0.5)
        >>> issubclass(warned[0].category, adamplus.theory.ConditionWarning)
        True
    """


class Condition(NamedTuple):
    """One condition of a theorem: its statement, in the paper's letters and as numbers, and whether it holds.

    Example:
        >>> adamplus.theory.theorem3(0.5, L=1, L_H=1, Delta=1, sigma=1).conditions[0]
        Condition(statement='α ≤ 1/L: 0.07786 ≤ 1', holds=True)
    """

    statement: str
    holds: bool


@dataclass(frozen=True)
class Settings:
    """Settings of a run for which a theorem bounds the gradient.

    Attributes:
        theorem: name of the theorem.
        lr: α.
        beta: β.
        beta_power: a.
        norm_power: p.
        eps: ε₀.
        T: the number of steps.
        initial_batch: T₀, the number of samples that the first gradient averages.
        batch: m, the number of samples that every other gradient averages.
        power: q in the bounded quantity (1/T) Σ E‖∇F(w_t)‖^q.
        conditions: the theorem's conditions, each with whether it holds.

    Example:
        >>> settings = adamplus.theory.theorem2(10_000, L=1, L_H=1, Delta=1, sigma=0.1)
        >>> w = torch.nn.Parameter(torch.ones(3))
        >>> optimizer = adamplus.AdamPlus([w], **settings.optimizer())
        >>> settings.violations
        ()
        >>> settings.evaluations
        10000
        >>> settings.bound(10**12) < settings.bound()          # the longer the run, the smaller the gradient
        True
    """

    theorem: str
    lr: float
    beta: float
    beta_power: float
    norm_power: float
    eps: float
    T: int
    initial_batch: int
    batch: int
    power: float
    conditions: tuple[Condition, ...]
    formula: Callable[[int, float | None], float] = field(repr=False, compare=False)
    error_formula: Callable[[int], float] | None = field(default=None, repr=False, compare=False)

    def optimizer(self) -> dict[str, Any]:
        """Return the settings as keyword arguments of `AdamPlus`."""
        return {name: getattr(self, name) for name in ("lr", "beta", "beta_power", "norm_power", "eps")}

    @property
    def evaluations(self) -> int:
        """Number of single-sample gradients that the run evaluates: T₀ + (T − 1) m."""
        return self.initial_batch + (self.T - 1) * self.batch

    @property
    def violations(self) -> tuple[str, ...]:
        """Statements of the conditions that do not hold."""
        return tuple(condition.statement for condition in self.conditions if not condition.holds)

    def bound(self, T: int | None = None, *, norm_sum: float | None = None) -> float:  # noqa: N803
        """Return the theorem's upper bound of (1/T) Σ E‖∇F(w_t)‖^power.

        Args:
            T: the number of steps. β changes with it if the theorem ties β to T. Default: the T of the settings.
            norm_sum: E Σ‖z_t‖ over the run, as `AdamPlus.stats()` reports it. Only Theorem 1 needs it.
        """
        return self.formula(self.T if T is None else T, norm_sum)

    def error_bound(self, T: int | None = None) -> float:  # noqa: N803
        """Return the upper bound of (1/T) Σ E δ_t^power ≥ (1/T) Σ E‖z_t − ∇F(w_t)‖^power.

        It is the second conclusion of Theorem 2: z comes as close to the gradient as the gradient comes to 0.

        Args:
            T: the number of steps. β changes with it if the theorem ties β to T. Default: the T of the settings.

        Raises:
            ValueError: for theorems that do not bound the error of z.
        """
        if self.error_formula is None:
            raise ValueError(f"{self.theorem} does not bound the error of z: use theorem2 or lemma4")
        return self.error_formula(self.T if T is None else T)

    def gradient_norm(self, T: int | None = None, *, norm_sum: float | None = None) -> float:  # noqa: N803
        """Return the bound of E‖∇F(w_τ)‖ at a random point w_τ of the run, by Jensen's inequality."""
        return self.bound(T, norm_sum=norm_sum) ** (1 / self.power)


def at_most(name: str, value: float, limit_name: str, limit: float) -> Condition:
    """Return the condition value ≤ limit, with a tolerance for values that were computed to equal the limit."""
    return Condition(f"{name} ≤ {limit_name}: {value:.4g} ≤ {limit:.4g}", value <= limit * (1 + 1e-12))


def checked(settings: Settings, check: bool) -> Settings:
    """Return the settings; raise if `check`, and warn otherwise, if they violate a condition."""
    if settings.violations:
        message = f"{settings.theorem} does not hold for these settings: {'; '.join(settings.violations)}; {REMEDY}"
        if check:
            raise ValueError(message)
        warnings.warn(message, ConditionWarning, stacklevel=3)
    return settings


def require_numbers(**values: float) -> None:
    """Raise a ValueError if a constant of a problem is negative or not finite."""
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be finite and at least 0, got {value}")


def require_positive(**values: float | None) -> None:
    """Raise a ValueError if a value is neither None nor finite and above 0."""
    for name, value in values.items():
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be finite and above 0, got {value}")


def require_counts(**values: int) -> None:
    """Raise a ValueError if a number of steps or of samples is not a whole number of at least 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def least(limits: Iterable[float]) -> float:
    """Return the least limit, or 1 if all limits are infinite, as for L = L_H = 0."""
    value = min(limits)
    return value if value < math.inf else 1.0


def root(numerator: float, denominator: float, power: float) -> float:
    """Return (numerator / denominator)^(1/power), or infinity if the denominator is 0."""
    return (numerator / denominator) ** (1 / power) if denominator > 0 else math.inf


def whole_samples(number: float) -> int:
    """Return the least whole number of samples or steps that is at least `number`, with a tolerance for rounding."""
    return max(1, math.ceil(number * (1 - 1e-12)))
