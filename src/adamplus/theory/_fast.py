"""Theorem 3 and the appendix's variant of Adam⁺: faster rates with large batches, for a given accuracy.

Both proofs have the same form and the same slips:

- The step marked (c) needs η/2 − η²L ≥ γ/L, where η = αγ and α ≤ 1/L. That never holds, because η/2 ≤ γ/(2L). The
  resulting term 12LΔ does not depend on α, so steps of almost no length would make the gradient small.
  With −⟨∇F, z⟩ = ½‖z − ∇F‖² − ½‖∇F‖² − ½‖z‖² in its place, η ≤ 1/(2L) gives γ‖z‖² ≤ (4/α)(F(w_t) − F(w_{t+1})) +
  ‖z − ∇F‖².
- The reason of step (b), −⟨∇F, z⟩ ≤ ½(‖∇F‖² + ‖z − ∇F‖²), has the wrong sign before ‖∇F‖². The step itself is right.
- The sum of (β/2) E δ_t² ≤ … loses a factor 2 on the right.
- The proof takes E δ₁² to be σ²/T₀, but it is 2σ²/T₀ by the definition of δ: 14 becomes 28.

The repaired proof: with k = 2^(1/3), (a + b)^(4/3) ≤ k (a^(4/3) + b^(4/3)) by convexity, where the paper has 2. (The
appendix has the power 3/2, and k = √2.) Then Σ‖z‖^(4/3) + Σ‖∇F‖^(4/3) is at most

    8(1 + k) Δ/(αβ^a) + (2(1 + k) + 2k/3) Σδ²/β^a + (1 + k + k/3) β^(2a) T,

with 3k/4 for 2k/3 and k/4 for k/3 in the appendix. Lemma 1 bounds Σδ² by 2 E δ₁²/β + 4βσ²T + (2/14) β^a Σ‖z‖^(4/3). The
factor of Σ‖z‖^(4/3) becomes 0.77 (0.84), so it cancels. With the paper's 2 it would be 1.05 (1.07), and the proof would
not close. What is left has the constants 18.1, 21.4, 21.4, 2.7 (19.3, 23.6, 23.6, 2.8), all below 24, 28, 28 and 4. So
the printed bounds hold with 24Δ/α in place of 12LΔ, and 28 in place of the 14 of the initial batch.

The paper's Table 1 has one row for Adam⁺ with "Type II" and a rate better than O(ε^−4). No single setting has both:
Type II is Theorem 1 (a = 1), and the rates better than O(ε^−4) are those of this file (a = 4/3).
"""
# ruff: noqa: N803 (the paper's letters)

import math

from ._lemmas import C
from ._settings import Settings, at_most, checked, least, require_numbers, require_positive, root, whole_samples

A = 4 / 3
"""a, the power of β in the step size, in both theorems."""


def theorem3(
    epsilon: float,
    L: float,
    L_H: float,
    Delta: float,
    sigma: float,
    *,
    beta_constant: float | None = None,
    T_constant: float | None = None,
    lr: float | None = None,
    repaired: bool = False,
    check: bool = False,
) -> Settings:
    r"""Theorem 3: Nadam⁺ (p = 2/3, a = 4/3) finds E‖∇F(w_τ)‖ ≤ ε in O(ε^−3.5) gradient evaluations.

    .. math::
        \frac1T\sum_t E\|\nabla F(w_t)\|^{4/3} \le \frac{12L\Delta}{\beta^{4/3}T}
        + \frac{14\sigma^2}{\beta^{7/3}T_0T} + \frac{28\sigma^2}{\beta^{1/3}m} + 4\beta^{8/3}

    with C L_H² α⁴ ≤ 1/14, α ≤ 1/L, ε₀ = 2β^(4/3), β = O(ε^(1/2)), T = O(ε^−2), T₀ = 1/β, m = 1/β³. The step τ is
    drawn uniformly from the run. The constants of the two O(·) are parameters. Their defaults give the largest β, and
    then the least T, with which each of the four terms is at most a quarter of ε^(4/3).

    Slips of the paper:
        - The proof does not give 12LΔ and 14: `repaired` uses 24Δ/α and 28. The module's docstring has the reasons.
        - G is assumed, as for Theorem 1, but is not used.

    Args:
        epsilon: ε, the target accuracy.
        L: Lipschitz constant of ∇F.
        L_H: Lipschitz constant of the Hessian.
        Delta: Δ, an upper bound of F(w₀) − inf F.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        beta_constant: constant of β = beta_constant · ε^(1/2), which is at most 1. Default: see above.
        T_constant: constant of T = T_constant · ε^−2. Default: see above.
        lr: α. Default: the largest value that the theorem allows.
        repaired: use the constants that the proof gives once its slips are repaired.
        check: raise a ValueError if a condition is violated. Default: issue a `ConditionWarning`.

    Example:
        >>> settings = adamplus.theory.theorem3(0.01, L=1, L_H=1, Delta=1, sigma=1)
        >>> round(settings.beta, 3), settings.T, settings.batch
        (0.017, 5893887, 202009)
        >>> settings.gradient_norm() <= 0.01
        True
    """
    require_numbers(L=L, L_H=L_H, Delta=Delta, sigma=sigma)
    require_positive(epsilon=epsilon, lr=lr, beta_constant=beta_constant, T_constant=T_constant)
    limits = {"1/L": root(1, L, 1), "(1/(14 C L_H²))^(1/4)": root(1, 14 * C * L_H**2, 4)}
    if beta_constant is None:
        beta_constant = min(root(1, 16, 8 / 3), root(1, 112 * sigma**2, 8 / 3))
    beta = min(1.0, beta_constant * epsilon**0.5)
    return _fast(
        name="Theorem 3",
        power=4 / 3,
        norm_power=2 / 3,
        epsilon=epsilon,
        beta=beta,
        initial_batch=whole_samples(1 / beta),
        batch=whole_samples(1 / beta**3),
        last=4 * beta ** (2 * A),
        limits=limits,
        constants=(L, Delta, sigma),
        T_constant=T_constant,
        lr=lr,
        repaired=repaired,
        check=check,
    )


def fast_rate(
    epsilon: float,
    L: float,
    L_H: float,
    G: float,
    Delta: float,
    sigma: float,
    *,
    beta_constant: float | None = None,
    T_constant: float | None = None,
    batch_constant: float | None = None,
    lr: float | None = None,
    repaired: bool = False,
    check: bool = False,
) -> Settings:
    r"""The appendix's variant: Adam⁺ with p = 1/2 and a = 4/3 finds E‖∇F(w_τ)‖ ≤ ε in O(ε^−3.625) evaluations.

    .. math::
        \frac1T\sum_t E\|\nabla F(w_t)\|^{3/2} \le \frac{12L\Delta}{\beta^{4/3}T}
        + \frac{14\sigma^2}{\beta^{7/3}T_0T} + \frac{28\sigma^2}{\beta^{1/3}m} + 4\beta^4

    with β = ε^(3/8), T = O(ε^−2), T₀ = ε^(−3/8), m = ε^−1.625, and, from its proof, C L_H² α⁴ ≤ 1/(14 G^(1/2)),
    α ≤ 1/L, ε₀ = 2β^(4/3).

    Slips of the paper:
        - The proof does not give 12LΔ and 14: `repaired` uses 24Δ/α and 28. The module's docstring has the reasons.
        - β and m need constants: as printed, the last term alone is 4 ε^(3/2). The defaults give the largest β, and the
          least T and m, with which each term is at most a quarter of ε^(3/2). A constant of 1 is the printed value.
        - The proof writes ‖z‖^(4/3) once in place of ‖z‖^(3/2), and omits G^(1/2) once.

    Args:
        epsilon: ε, the target accuracy.
        L: Lipschitz constant of ∇F.
        L_H: Lipschitz constant of the Hessian.
        G: the largest norm of the gradient of a sample. It must bound every sample's gradient, not only ∇F.
        Delta: Δ, an upper bound of F(w₀) − inf F.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        beta_constant: constant of β = beta_constant · ε^(3/8), which is at most 1. Default: see above.
        T_constant: constant of T = T_constant · ε^−2. Default: see above.
        batch_constant: constant of m = batch_constant · ε^−1.625. Default: see above.
        lr: α. Default: the largest value that the theorem allows.
        repaired: use the constants that the proof gives once its slips are repaired.
        check: raise a ValueError if a condition is violated. Default: issue a `ConditionWarning`.

    Example:
        >>> settings = adamplus.theory.fast_rate(0.01, L=1, L_H=1, G=1, Delta=1, sigma=1)
        >>> settings.norm_power, round(settings.beta_power, 3), round(settings.beta, 4)
        (0.5, 1.333, 0.0889)
        >>> settings.gradient_norm() <= 0.01
        True
    """
    require_numbers(L=L, L_H=L_H, G=G, Delta=Delta, sigma=sigma)
    require_positive(epsilon=epsilon, lr=lr, beta_constant=beta_constant, T_constant=T_constant)
    require_positive(batch_constant=batch_constant)
    limits = {"1/L": root(1, L, 1), "(1/(14 C L_H² G^(1/2)))^(1/4)": root(1, 14 * C * L_H**2 * G**0.5, 4)}
    beta = min(1.0, (0.5 if beta_constant is None else beta_constant) * epsilon**0.375)
    if batch_constant is None:
        samples = 112 * sigma**2 / (beta ** (1 / 3) * epsilon**1.5)
    else:
        samples = batch_constant / epsilon**1.625
    return _fast(
        name="The theorem of the appendix",
        power=1.5,
        norm_power=0.5,
        epsilon=epsilon,
        beta=beta,
        initial_batch=whole_samples(epsilon**-0.375),
        batch=whole_samples(samples),
        last=4 * beta ** (3 * A),
        limits=limits,
        constants=(L, Delta, sigma),
        T_constant=T_constant,
        lr=lr,
        repaired=repaired,
        check=check,
    )


def _fast(
    *,
    name: str,
    power: float,
    norm_power: float,
    epsilon: float,
    beta: float,
    initial_batch: int,
    batch: int,
    last: float,
    limits: dict[str, float],
    constants: tuple[float, float, float],
    T_constant: float | None,
    lr: float | None,
    repaired: bool,
    check: bool,
) -> Settings:
    """Settings from the bound, the number of steps and the conditions that both theorems share."""
    L, Delta, sigma = constants
    alpha = least(limits.values()) if lr is None else lr
    progress = 24 * Delta / alpha if repaired else 12 * L * Delta
    start = (28 if repaired else 14) * sigma**2 / (beta * initial_batch)
    floor = 28 * sigma**2 / (beta ** (1 / 3) * batch) + last

    def formula(T: int, norm_sum: float | None) -> float:
        return (progress + start) / (beta**A * T) + floor

    needed = 4 * max(progress, start) / (beta**A * epsilon**power)
    T = max(1, math.ceil(needed if T_constant is None else T_constant / epsilon**2))
    conditions = [at_most("α", alpha, limit, value) for limit, value in limits.items()]
    conditions.append(at_most("the bound", formula(T, None), f"ε^{power:.4g}", epsilon**power))
    settings = Settings(
        theorem=name,
        lr=alpha,
        beta=beta,
        beta_power=A,
        norm_power=norm_power,
        eps=2 * beta**A,
        T=T,
        initial_batch=initial_batch,
        batch=batch,
        power=power,
        conditions=tuple(conditions),
        formula=formula,
    )
    return checked(settings, check)
