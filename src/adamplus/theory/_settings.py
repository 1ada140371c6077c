"""What a theorem gives: the settings of a run, the conditions that it makes, and the bound that it proves."""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

WAY_OUT = "leave out `lr` and the constants to get values that the theorem allows"


class ConditionWarning(UserWarning):
    """Settings were asked for to which a theorem does not apply.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as told:
        ...     warnings.simplefilter("always")
        ...     settings = adamplus.theory.theorem2(1000, L=1, L_H=1, Delta=1, sigma=1, lr=0.5)
        >>> issubclass(told[0].category, adamplus.theory.ConditionWarning)
        True
    """


class Condition(NamedTuple):
    """One condition of a theorem, in the paper's letters with the numbers put in, and whether it holds.

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
        theorem: which.
        lr: α.
        beta: β.
        beta_power: a.
        norm_power: p.
        eps: ε₀.
        T: the number of steps.
        initial_batch: T₀, how many samples the first gradient averages.
        batch: m, how many samples each of the others averages.
        power: q; the bound is on (1/T) Σ E‖∇F(w_t)‖^q.
        conditions: what the theorem asks for, and whether it is so.

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

    def optimizer(self) -> dict[str, Any]:
        """The keyword arguments of `AdamPlus`."""
        return {name: getattr(self, name) for name in ("lr", "beta", "beta_power", "norm_power", "eps")}

    @property
    def evaluations(self) -> int:
        """How many gradients of single samples the run evaluates: T₀ + (T − 1) m."""
        return self.initial_batch + (self.T - 1) * self.batch

    @property
    def violations(self) -> tuple[str, ...]:
        """The conditions that do not hold."""
        return tuple(condition.statement for condition in self.conditions if not condition.holds)

    def bound(self, T: int | None = None, *, norm_sum: float | None = None) -> float:  # noqa: N803
        """What the theorem proves of (1/T) Σ E‖∇F(w_t)‖^power.

        Args:
            T: the number of steps, if not that of the settings; β follows where the theorem ties it to T.
            norm_sum: E Σ‖z_t‖ over the run, as `AdamPlus.stats()` tells it. Theorem 1 needs it, the others do not.
        """
        return self.formula(self.T if T is None else T, norm_sum)

    def gradient_norm(self, T: int | None = None, *, norm_sum: float | None = None) -> float:  # noqa: N803
        """What follows, by Jensen's inequality, for E‖∇F(w_τ)‖ at a point w_τ drawn at random from the run."""
        return self.bound(T, norm_sum=norm_sum) ** (1 / self.power)


def at_most(name: str, value: float, limit_name: str, limit: float) -> Condition:
    """The condition value ≤ limit, up to the rounding of values that were computed to be equal to it."""
    return Condition(f"{name} ≤ {limit_name}: {value:.4g} ≤ {limit:.4g}", value <= limit * (1 + 1e-12))


def checked(settings: Settings, check: bool) -> Settings:
    """The settings, after what is wrong with them was told: as an error if `check`, else as a warning."""
    if settings.violations:
        message = f"{settings.theorem} does not hold for these settings: {'; '.join(settings.violations)}; {WAY_OUT}"
        if check:
            raise ValueError(message)
        warnings.warn(message, ConditionWarning, stacklevel=3)
    return settings


def require_numbers(**values: float) -> None:
    """Raise if a constant of a problem is negative or not finite."""
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be finite and at least 0, got {value}")


def require_positive(**values: float | None) -> None:
    """Raise if a value that was given is not finite and above 0."""
    for name, value in values.items():
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be finite and above 0, got {value}")


def require_counts(**values: int) -> None:
    """Raise if a number of steps or of samples is not a whole number from 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def least(limits: Iterable[float]) -> float:
    """The largest value below all limits; 1 where there is no limit at all, as for L = L_H = 0."""
    value = min(limits)
    return value if value < math.inf else 1.0


def root(numerator: float, denominator: float, power: float) -> float:
    """(numerator / denominator)^(1/power), infinite if the denominator is 0."""
    return (numerator / denominator) ** (1 / power) if denominator > 0 else math.inf
