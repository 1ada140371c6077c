"""Theorems 1 and 2 for a given accuracy: the remark after Theorem 1 on slowly growing Σ‖z‖, and Lemma 4."""
# ruff: noqa: N803 (the paper's letters)

from dataclasses import replace

from ._settings import Settings, at_most, checked, require_counts, require_numbers, require_positive, whole_samples
from ._theorems import Bounds2, constants1, rate2, theorem1_settings


def adaptive_rate(
    epsilon: float,
    growth: float,
    L: float,
    L_H: float,
    G: float,
    Delta: float,
    sigma: float,
    batch: int = 1,
    *,
    growth_constant: float = 1.0,
    T_constant: float | None = None,
    lr: float | None = None,
    repaired: bool = False,
    check: bool = False,
) -> Settings:
    r"""The remark after Theorem 1: if Σ‖z‖ grows slowly, Adam⁺ needs O(ε^(−2/(1−s))) steps, whatever the worst case is.

    .. math::
        E\sum_{t\le T}\|z_t\| \le c\,T^s,\ s<1:\qquad b = 1-s,\quad m = O(1),\quad T_0 = T^{1-s} = O(\epsilon^{-2}),
        \quad T = O(\epsilon^{-2/(1-s)})

    With these, Theorem 1 gives (1/T) Σ E‖∇F(w_t)‖² ≤ ε². Its bound becomes

    .. math::
        \frac{G c}{T^{1-s}} + \frac{\Delta}{\alpha T} + \frac{18\sigma^2}{T} + \frac{30\sigma^2}{mT^{1-s}}

    For s = 0 that is O(ε^−2) steps, and for s = 1/2 it is O(ε^−4). The remark writes α for s; α is the step size here.

    Args:
        epsilon: ε, the target accuracy: the bound of (1/T) Σ E‖∇F‖² is at most ε².
        growth: s, the exponent with which E Σ‖z‖ grows, in [0, 1). `GrowthProbe` and `growth_exponent` measure it.
        L: Lipschitz constant of ∇F.
        L_H: Lipschitz constant of the Hessian.
        G: the largest ‖∇F‖.
        Delta: Δ, an upper bound of F(w₀) − inf F.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        batch: m, the samples of every gradient but the first.
        growth_constant: c in E Σ‖z‖ ≤ c T^s. The remark has 1.
        T_constant: constant of T = T_constant · ε^(−2/(1−s)). Default: the least T with which each of the four terms is
            at most a quarter of ε².
        lr: α. Default: the largest value that Theorem 1 allows.
        repaired: use the constants that the proof gives once its slips are repaired.
        check: raise a ValueError if a condition is violated. Default: issue a `ConditionWarning`.

    Returns:
        Settings whose `bound(norm_sum=…)` is at most ε² for every `norm_sum` up to c T^s.

    Example:
        >>> settings = adamplus.theory.adaptive_rate(0.1, growth=0.5, L=1, L_H=1, G=2, Delta=1, sigma=1)
        >>> settings.T, settings.initial_batch, round(1 / settings.beta)
        (144000000, 12000, 12000)
        >>> settings.bound(norm_sum=settings.T**0.5) <= 0.1**2
        True
    """
    require_positive(epsilon=epsilon, growth_constant=growth_constant, T_constant=T_constant, lr=lr)
    require_numbers(L=L, L_H=L_H, G=G, Delta=Delta, sigma=sigma)
    require_counts(batch=batch)
    if not 0 <= growth < 1:
        raise ValueError(f"growth must be in [0, 1), got {growth} (Σ‖z‖ that grows as T says nothing about ∇F)")
    b = 1 - growth
    known = constants1(L, L_H, lr, repaired)
    slow = max(known.growth * G * growth_constant, known.later * sigma**2 / batch)
    fast = max(Delta / known.alpha, known.initial * sigma**2)
    least_steps = max((4 * slow / epsilon**2) ** (1 / b), 4 * fast / epsilon**2)
    T = whole_samples(least_steps if T_constant is None else T_constant / epsilon ** (2 / b))
    settings = theorem1_settings(T, L, L_H, G, Delta, sigma, b, whole_samples(T**b), batch, lr=lr, repaired=repaired)
    bound = settings.bound(norm_sum=growth_constant * T**growth)
    conditions = (*settings.conditions, at_most("the bound", bound, "ε²", epsilon**2))
    return checked(replace(settings, theorem="The remark after Theorem 1", conditions=conditions), check)


def lemma4(
    epsilon: float,
    L: float,
    L_H: float,
    Delta: float,
    sigma: float,
    initial_batch: int = 1,
    batch: int = 1,
    *,
    beta_constant: float | None = None,
    T_constant: float | None = None,
    lr: float | None = None,
    repaired: bool = False,
    check: bool = False,
) -> Settings:
    r"""Lemma 4: Theorem 2 for a given accuracy, (1/T) Σ E‖∇F(w_t)‖^(3/2) ≤ ε^(3/2) in T = O(ε^−4.5) steps.

    .. math::
        \beta = O(\epsilon^3),\qquad T = O(\epsilon^{-9/2})

    The bound is that of `theorem2`, with this β in place of T^(−2/3). The defaults give the largest β, at most 1, and
    then the least T, with which each term is at most a quarter of ε^(3/2).

    Slip of the paper: β = ε³ has no constant. With it, 4545 β^(1/2) σ^(3/2) alone is above ε^(3/2) unless σ is tiny.

    Args:
        epsilon: ε, the target accuracy.
        L: Lipschitz constant of ∇F.
        L_H: Lipschitz constant of the Hessian.
        Delta: Δ, an upper bound of F(w₀) − inf F.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        initial_batch: T₀, the samples of the first gradient.
        batch: m, the samples of every other gradient.
        beta_constant: constant of β = beta_constant · ε³, which is at most 1; the paper has 1. Default: see above.
        T_constant: constant of T = T_constant · ε^−4.5. Default: see above.
        lr: α. Default: the largest value that the theorem allows.
        repaired: use the constants that the proof gives once its slips are repaired.
        check: raise a ValueError if a condition is violated. Default: issue a `ConditionWarning`.

    Example:
        >>> settings = adamplus.theory.lemma4(0.5, L=1, L_H=1, Delta=1, sigma=1)
        >>> settings.gradient_norm() <= 0.5, settings.error_bound() <= 0.5**1.5
        (True, True)
    """
    require_positive(epsilon=epsilon, lr=lr, beta_constant=beta_constant, T_constant=T_constant)
    require_numbers(L=L, L_H=L_H, Delta=Delta, sigma=sigma)
    require_counts(initial_batch=initial_batch, batch=batch)
    alpha, condition = rate2(L_H, lr)
    bounds = Bounds2(alpha, L, Delta, sigma / initial_batch**0.5, sigma / batch**0.5, repaired)
    target = epsilon**1.5
    if beta_constant is None:
        noise, curvature = 4545 * bounds.later**1.5, bounds.curvature(1.0)
        limits = [(target / (4 * noise)) ** 2] if noise else []
        limits += [(target / (4 * curvature)) ** (1 / 3)] if curvature else []
        beta = min(1.0, *limits)
    else:
        beta = min(1.0, beta_constant * epsilon**3)
    progress = max(101 * Delta / alpha, 2727 * bounds.start)
    T = whole_samples(4 * progress / (beta * target) if T_constant is None else T_constant / epsilon**4.5)
    settings = Settings(
        theorem="Lemma 4",
        lr=alpha,
        beta=beta,
        beta_power=1.0,
        norm_power=0.5,
        eps=0.0,
        T=T,
        initial_batch=initial_batch,
        batch=batch,
        power=1.5,
        conditions=(condition, at_most("the bound", bounds.gradient(T, beta), "ε^1.5", target)),
        formula=lambda T, _: bounds.gradient(T, beta),
        error_formula=lambda T: bounds.error(T, beta),
    )
    return checked(settings, check)
