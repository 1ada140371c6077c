"""Theorems 1 and 2: settings and bounds of Adam⁺, with p = 1/2 and a = 1, for a given number of steps."""
# ruff: noqa: N803 (the paper's letters)

from typing import NamedTuple

from ._lemmas import C
from ._settings import (
    Condition,
    Settings,
    at_most,
    checked,
    least,
    require_counts,
    require_numbers,
    require_positive,
    root,
)


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
        - The proof writes ‖z − F‖ for ‖z − ∇F‖.
        - It says less than it seems to: ‖∇F‖² ≤ G‖∇F‖ ≤ G‖z‖ + G‖z − ∇F‖ holds at any point, moving or not. The bound
          therefore also covers a run that does not move at all, whose Σ‖z‖ grows as T.

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
    settings = theorem1_settings(T, L, L_H, G, Delta, sigma, b, initial_batch, batch, lr=lr, repaired=repaired)
    return checked(settings, check)


class Constants1(NamedTuple):
    """What Theorem 1 makes of a problem's constants."""

    limits: dict[str, float]
    """The limits of α."""
    alpha: float
    growth: float
    """The factor of G E Σ‖z‖/T."""
    initial: float
    """The factor of σ₀²/(βT)."""
    later: float = 30
    """The factor of βσ_m²."""


def constants1(L: float, L_H: float, lr: float | None, repaired: bool) -> Constants1:
    """Limits of α, α itself and the factors of the bound, as printed or repaired."""
    limits = {"(1/(36 C L_H²))^(1/4)": root(1, 36 * C * L_H**2, 4), "1/(4L)": root(1, 4 * L, 1)}
    return Constants1(limits, least(limits.values()) if lr is None else lr, *((8, 22) if repaired else (1, 18)))


def theorem1_settings(
    T: int,
    L: float,
    L_H: float,
    G: float,
    Delta: float,
    sigma: float,
    b: float,
    initial_batch: int,
    batch: int,
    *,
    lr: float | None,
    repaired: bool,
) -> Settings:
    """The settings of Theorem 1, whose conditions may be violated."""
    require_counts(T=T, initial_batch=initial_batch, batch=batch)
    require_numbers(L=L, L_H=L_H, G=G, Delta=Delta, sigma=sigma)
    require_positive(lr=lr)
    if not 0 <= b <= 1:
        raise ValueError(f"b must be in [0, 1], got {b} (β is T^(−b))")
    limits, alpha, growth, initial, later = constants1(L, L_H, lr, repaired)

    def formula(T: int, norm_sum: float | None) -> float:
        if norm_sum is None:
            raise ValueError("Theorem 1 bounds the gradient by Σ‖z‖: pass norm_sum, which AdamPlus.stats() reports")
        noise = initial * sigma**2 / (T ** (1 - b) * initial_batch) + later * sigma**2 / (batch * T**b)
        return growth * G * norm_sum / T + Delta / (alpha * T) + noise

    beta = float(T) ** -b
    return Settings(
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

    The second conclusion (the fifth lemma) bounds the error of z, ‖z_t − ∇F(w_t)‖ ≤ δ_t. It is `error_bound()`:

    .. math::
        \frac1T\sum_t E\,\delta_t^{3/2} \le \frac{120}{59}\left(\frac{E\delta_1^{3/2}}{\beta T}
        + 2\beta^{1/2}\sigma_m^{3/2}\right) + \frac1{59}\,\frac1T\sum_t E\|\nabla F(w_t)\|^{3/2}

    Slips of the paper:
        - The last term comes from 2155 α³β³L³ and α³ ≤ 1/(76800 L_H^(3/2)). That is 0.0281 β³L³/L_H^(3/2). The paper
          has 3β³L^(3/2)/100, with L for L_H in the denominator. `repaired` uses 2155 α³β³L³.
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
        >>> round(settings.error_bound(), 4)             # 1/59 of it, as there is no noise
        0.7277
    """
    require_counts(T=T, initial_batch=initial_batch, batch=batch)
    require_numbers(L=L, L_H=L_H, Delta=Delta, sigma=sigma)
    require_positive(lr=lr)
    if not 0 < s < 1:
        raise ValueError(f"s must be in (0, 1), got {s} (β is T^(−s), and the theorem has s = 2/3)")
    alpha, condition = rate2(L_H, lr)
    bounds = Bounds2(alpha, L, Delta, sigma / initial_batch**0.5, sigma / batch**0.5, repaired)
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
        conditions=(condition,),
        formula=lambda T, _: bounds.gradient(T, float(T) ** -s),
        error_formula=lambda T: bounds.error(T, float(T) ** -s),
    )
    return checked(settings, check)


def rate2(L_H: float, lr: float | None) -> tuple[float, Condition]:
    """α of Theorem 2, and the condition on it."""
    limit = root(1, 120 * 640 * L_H**1.5, 3)
    alpha = least([limit]) if lr is None else lr
    return alpha, at_most("α", alpha, "(1/(120 · 640 · L_H^(3/2)))^(1/3)", limit)


class Bounds2(NamedTuple):
    """The two bounds of Theorem 2, by its fourth and fifth lemma, for given T and β."""

    alpha: float
    L: float
    Delta: float
    first: float
    """σ₀."""
    later: float
    """σ_m."""
    repaired: bool

    @property
    def start(self) -> float:
        """The bound of E δ₁^(3/2)."""
        return 2 * self.first**1.5

    def curvature(self, beta: float) -> float:
        """The last term, which only β makes small."""
        return 2155 * (self.alpha * beta * self.L) ** 3 if self.repaired else 3 * beta**3 * self.L**1.5 / 100

    def gradient(self, T: int, beta: float) -> float:
        """The bound of (1/T) Σ E‖∇F‖^(3/2)."""
        progress = 101 * self.Delta / (self.alpha * beta * T) + 2727 * self.start / (beta * T)
        return progress + 4545 * beta**0.5 * self.later**1.5 + self.curvature(beta)

    def error(self, T: int, beta: float) -> float:
        """The bound of (1/T) Σ E δ^(3/2)."""
        noise = self.start / (beta * T) + 2 * beta**0.5 * self.later**1.5
        return 120 / 59 * noise + self.gradient(T, beta) / 59
