"""NIGT as a member of the family: p = 1, a = 5/4, β of the order T^(−4/7)."""
# ruff: noqa: N803 (the paper's letters)

import math

from ._settings import Settings, require_counts, require_numbers, require_positive

A = 5 / 4
"""a, the power of β in the step size. With β of the order T^(−4/7), the step is of the order T^(−5/7)."""


def nigt(
    T: int,
    L: float,
    L_H: float,
    Delta: float,
    sigma: float,
    initial_batch: int = 1,
    batch: int = 1,
    *,
    beta_constant: float | None = None,
    lr: float | None = None,
) -> Settings:
    r"""NIGT (Cutkosky and Mehta, 2020): steps of constant length h = αβ^(5/4), O(ε^−3.5) evaluations with any batch.

    .. math::
        \frac1T\sum_t E\|\nabla F(w_t)\| \le \frac{3\Delta}{hT}
        + 8\left(\frac{\sigma_0}{\beta T} + \sqrt{\beta}\sigma_m + \frac{L_Hh^2}{2\beta^2}\right) + \frac{3Lh}{2}

    The Adam⁺ paper says that Nadam⁺ with p = 1, a = 5/4 and β = T^(−4/7) is almost NIGT, but proves nothing about it.
    The bound here follows in a few lines from the two lemmas of Cutkosky and Mehta. The first is F(w_{t+1}) ≤ F(w_t) −
    (h/3)‖∇F‖ + (8h/3)‖z − ∇F‖ + Lh²/2. By the second, the error of z is noise under z's weights plus a bias of at most
    L_H h² (1−β)/(2β²). The defaults follow their choice, which is quoted from memory: β = Δ^(4/7) L_H^(2/7) σ^(−6/7)
    T^(−4/7), at most 1, and h = the smaller of Δ^(5/7) L_H^(−1/7) σ^(−4/7) T^(−5/7) and (Δ/(LT))^(1/2), with the σ of a
    batch. Every α is allowed, but a large one makes the bound large.

    Args:
        T: the number of steps.
        L: Lipschitz constant of ∇F.
        L_H: Lipschitz constant of the Hessian.
        Delta: Δ, an upper bound of F(w₀) − inf F.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        initial_batch: T₀, the samples of the first gradient.
        batch: m, the samples of every other gradient.
        beta_constant: constant of β = beta_constant · T^(−4/7), at most 1; the paper has 1. Default: see above.
        lr: α. Default: the value that gives the length h above.

    Example:
        >>> settings = adamplus.theory.nigt(10**7, L=1, L_H=1, Delta=1, sigma=1)
        >>> round(settings.beta, 8), round(settings.lr * settings.beta**1.25, 8)
        (0.0001, 1e-05)
        >>> settings.norm_power, settings.beta_power
        (1.0, 1.25)
        >>> round(settings.bound(), 4)                   # 0.03 + 8 · (0.001 + 0.01 + 0.005) + 0.000015
        0.158
    """
    require_counts(T=T, initial_batch=initial_batch, batch=batch)
    require_numbers(L=L, L_H=L_H, Delta=Delta, sigma=sigma)
    require_positive(lr=lr, beta_constant=beta_constant)
    first, later = sigma / initial_batch**0.5, sigma / batch**0.5
    if beta_constant is None:
        beta_constant = Delta ** (4 / 7) * L_H ** (2 / 7) / later ** (6 / 7) if later * L_H * Delta > 0 else math.inf

    def beta_of(T: int) -> float:
        return min(1.0, beta_constant / T ** (4 / 7))

    def alpha_of(T: int) -> float:
        if lr is not None:
            return lr
        lengths = [(Delta / (L * T)) ** 0.5 if L * Delta > 0 else math.inf]
        if later * L_H * Delta > 0:
            lengths.append(Delta ** (5 / 7) / (L_H ** (1 / 7) * later ** (4 / 7) * T ** (5 / 7)))
        length = min(lengths)
        return (length if length < math.inf else 1.0) / beta_of(T) ** A

    def formula(T: int, norm_sum: float | None) -> float:
        beta, length = beta_of(T), alpha_of(T) * beta_of(T) ** A
        error = first / (beta * T) + beta**0.5 * later + L_H * length**2 / (2 * beta**2)
        return 3 * Delta / (length * T) + 8 * error + 1.5 * L * length

    return Settings(
        theorem="NIGT's theorem",
        lr=alpha_of(T),
        beta=beta_of(T),
        beta_power=A,
        norm_power=1.0,
        eps=0.0,
        T=T,
        initial_batch=initial_batch,
        batch=batch,
        power=1.0,
        conditions=(),
        formula=formula,
    )
