"""Theorems 1 and 2: settings and bounds of Adam⁺, with p = 1/2 and a = 1, for a given number of steps."""
# ruff: noqa: N803 (the paper's letters)

from ._lemma import C
from ._settings import Settings, at_most, checked, least, require_counts, require_numbers, require_positive, root


def theorem1(
    T: int,
    L: float,
    L_H: float,
    G: float,
    Delta: float,
    sigma: float,
    b: float = 0.5,
    initial_batch: int = 1,
    batch: int = 1,
    *,
    lr: float | None = None,
    repaired: bool = False,
    check: bool = False,
) -> Settings:
    r"""Theorem 1: settings of Adam⁺, and a bound of the gradient by the growth of Σ‖z‖.

    .. math::
        \frac1T\sum_t E\|\nabla F(w_t)\|^2 \le \frac{G\,E\sum_t\|z_t\|}{T} + \frac{\Delta}{\alpha T}
        + \frac{18\sigma^2}{T^{1-b}T_0} + \frac{30\sigma^2}{mT^b}

    with α⁴ ≤ 1/(36 C L_H²), C = 1944, α ≤ 1/(4L), a = 1, ε₀ = β, β = T^(−b). If E Σ‖z‖ grows as T^s with s < 1, the
    paper chooses b = 1 − s. The constants are those of the statement unless `repaired` is True.

    Slips of the paper:
        - The proof ends with 8 G E Σ‖z‖, but the statement has G E Σ‖z‖: `repaired` uses the 8.
        - The proof takes E δ₁² to be σ₀², but δ₁² = 2‖n₁‖² by its definition in the proof of Lemma 1. With exact
          algebra 18 becomes 21.6, and 30 is more than is needed: `repaired` uses 22 and 30.
        - Δ/(αT) is not needed: |F(w_t) − F(w_{t+1})| ≤ G η_t ‖z_t‖ alone gives the first term. It does no harm.
        - The sums start at t = 1, but Δ is taken at w₀. Here the T points of a sum are the starting points of T steps.

    Args:
        T: the number of steps.
        L: Lipschitz constant of ∇F.
        L_H: Lipschitz constant of the Hessian.
        G: the largest ‖∇F‖.
        Delta: Δ, an upper bound of F(w₀) − inf F.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        b: exponent in β = T^(−b), in [0, 1].
        initial_batch: T₀, the samples of the first gradient.
        batch: m, the samples of every other gradient.
        lr: α. Default: the largest value that the theorem allows.
        repaired: use the constants that the proof gives once its slips are repaired.
        check: raise a ValueError if a condition is violated. Default: issue a `ConditionWarning`.

    Returns:
        Settings whose `bound()` needs `norm_sum`.

    Example:
        >>> settings = adamplus.theory.theorem1(10_000, L=1, L_H=1, G=2, Delta=1, sigma=1, b=0.5)
        >>> settings.beta, round(settings.lr, 4)
        (0.01, 0.0615)
        >>> round(settings.bound(norm_sum=100), 3)       # 0.02 + 0.0016 + 0.18 + 0.3
        0.502
    """
    require_counts(T=T, initial_batch=initial_batch, batch=batch)
    require_numbers(L=L, L_H=L_H, G=G, Delta=Delta, sigma=sigma)
    require_positive(lr=lr)
    if not 0 <= b <= 1:
        raise ValueError(f"b must be in [0, 1], got {b} (β is T^(−b))")
    limits = {"(1/(36 C L_H²))^(1/4)": root(1, 36 * C * L_H**2, 4), "1/(4L)": root(1, 4 * L, 1)}
    alpha = least(limits.values()) if lr is None else lr
    growth, initial = (8, 22) if repaired else (1, 18)

    def formula(T: int, norm_sum: float | None) -> float:
        if norm_sum is None:
            raise ValueError("Theorem 1 bounds the gradient by Σ‖z‖: pass norm_sum, which AdamPlus.stats() reports")
        noise = initial * sigma**2 / (T ** (1 - b) * initial_batch) + 30 * sigma**2 / (batch * T**b)
        return growth * G * norm_sum / T + Delta / (alpha * T) + noise

    beta = float(T) ** -b
    settings = Settings(
        theorem="Theorem 1",
        lr=alpha,
        beta=beta,
        beta_power=1.0,
        norm_power=0.5,
        eps=beta,
        T=T,
        initial_batch=initial_batch,
        batch=batch,
        power=2.0,
        conditions=tuple(at_most("α", alpha, name, limit) for name, limit in limits.items()),
        formula=formula,
    )
    return checked(settings, check)


def theorem2(
    T: int,
    L: float,
    L_H: float,
    Delta: float,
    sigma: float,
    initial_batch: int = 1,
    batch: int = 1,
    *,
    lr: float | None = None,
    s: float = 2 / 3,
    repaired: bool = False,
    check: bool = False,
) -> Settings:
    r"""Theorem 2: settings of Adam⁺ that converge in O(ε^−4.5) steps, whatever the growth of Σ‖z‖.

    .. math::
        \frac1T\sum_t E\|\nabla F(w_t)\|^{3/2} \le \frac{101\Delta}{\alpha\beta T}
        + \frac{2727\,E\delta_1^{3/2}}{\beta T} + 4545\beta^{1/2}\sigma_m^{3/2} + \frac{3\beta^3L^{3/2}}{100}

    (the fourth lemma of its proof) with 640 α³ L_H^(3/2) ≤ 1/120, a = 1, ε₀ = 0, β = T^(−s), s = 2/3. By the
    definition of δ in the proof, E δ₁^(3/2) ≤ 2σ₀^(3/2). Batches enter as σ₀² = σ²/T₀ and σ_m² = σ²/m.

    Slips of the paper:
        - The last term comes from 2155 α³β³L³ and α³ ≤ 1/(76800 L_H^(3/2)). That is 0.029 β³L³/L_H^(3/2), not
          3β³L^(3/2)/100. `repaired` uses 2155 α³β³L³.
        - The line before the last has 2727 E δ₁^(3/2)/β without 1/T. The last line is right.
        - The proof writes ‖∇F‖^(2/3) once in place of ‖∇F‖^(3/2), and −‖∇F‖^(3/2)/3 once without its sign.
        - 1/6 − 9/59 is 5/354, not 5/504. So 101 could be 71, and the constants after it smaller. This is not changed.

    Args:
        T: the number of steps.
        L: Lipschitz constant of ∇F.
        L_H: Lipschitz constant of the Hessian.
        Delta: Δ, an upper bound of F(w₀) − inf F.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        initial_batch: T₀, the samples of the first gradient.
        batch: m, the samples of every other gradient.
        lr: α. Default: the largest value that the theorem allows.
        s: exponent in β = T^(−s). Every s in (0, 1) converges, and 2/3 the fastest.
        repaired: use the constants that the proof gives once its slips are repaired.
        check: raise a ValueError if a condition is violated. Default: issue a `ConditionWarning`.

    Example:
        >>> settings = adamplus.theory.theorem2(10**6, L=1, L_H=1, Delta=1, sigma=0)
        >>> round(settings.beta, 12), round(settings.lr, 6)
        (0.0001, 0.023526)
        >>> round(settings.bound(), 3)                   # 101 / (0.023526 · 0.0001 · 10⁶)
        42.931
    """
    require_counts(T=T, initial_batch=initial_batch, batch=batch)
    require_numbers(L=L, L_H=L_H, Delta=Delta, sigma=sigma)
    require_positive(lr=lr)
    if not 0 < s < 1:
        raise ValueError(f"s must be in (0, 1), got {s} (β is T^(−s), and the theorem has s = 2/3)")
    limit = root(1, 120 * 640 * L_H**1.5, 3)
    alpha = least([limit]) if lr is None else lr

    def formula(T: int, norm_sum: float | None) -> float:
        beta = float(T) ** -s
        first, later = sigma / initial_batch**0.5, sigma / batch**0.5
        progress = 101 * Delta / (alpha * beta * T) + 2727 * 2 * first**1.5 / (beta * T)
        curvature = 2155 * (alpha * beta * L) ** 3 if repaired else 3 * beta**3 * L**1.5 / 100
        return progress + 4545 * beta**0.5 * later**1.5 + curvature

    settings = Settings(
        theorem="Theorem 2",
        lr=alpha,
        beta=float(T) ** -s,
        beta_power=1.0,
        norm_power=0.5,
        eps=0.0,
        T=T,
        initial_batch=initial_batch,
        batch=batch,
        power=1.5,
        conditions=(at_most("α", alpha, "(1/(120 · 640 · L_H^(3/2)))^(1/3)", limit),),
        formula=formula,
    )
    return checked(settings, check)
