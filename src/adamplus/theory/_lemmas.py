"""Lemmas 1 to 3: how the error of z shrinks from one step to the next, and how much a step lowers F."""
# ruff: noqa: N803 (the paper's letters)

from ._settings import require_numbers, require_positive

C = 1944
"""The constant of Lemma 1, 2 · 972."""


def lemma1(error: float, movement: float, beta: float, L_H: float, sigma: float, batch: int = 1) -> float:
    r"""Upper bound of E δ²_{t+1} by Lemma 1, where ‖z_t − ∇F(w_t)‖ ≤ δ_t.

    .. math::
        E\delta_{t+1}^2 \le (1-\beta/2)\,E\delta_t^2 + 2\beta^2\sigma_m^2 + C L_H^2\,E\|w_{t+1}-w_t\|^4/\beta^3

    The error decays, noise enters as β², and a movement costs its fourth power. Extrapolation makes this possible,
    and it is why small steps make z a better gradient than any of those that it averages.

    δ_t is defined as in the proof: δ_t² = 2 L_H² (m_t + 4 q_t²)² + 2‖n_t‖², where m_t and q_t are the means of
    ‖w_t − ŵ_k‖² and ‖w_t − ŵ_k‖, and n_t is the mean of the noise. All means take the weights with which z_t averages
    gradients.

    Slips of the paper:
        - Assumption 2 bounds E‖g_t(w_t) − ∇F(w_t)‖², but Algorithm 1 evaluates g_t at ŵ_t. The proof needs the bound at
          ŵ_t, which Assumption 1 (ii) gives: it holds at every point.
        - The proof writes ŵ_{t+1} and ξ_{t+1} inside sums over k, where ŵ_{k+1} and ξ_{k+1} are meant.
        - It writes F(ŵ) for ∇F(ŵ) in the noise n_t.
        - The end of the proof, and the remark after the lemma, have L² for L_H².

    Args:
        error: E δ_t², the squared error bound before the step.
        movement: E‖w_{t+1} − w_t‖⁴, the fourth power of the step length.
        beta: β.
        L_H: Lipschitz constant of the Hessian.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        batch: m, the samples of a gradient.

    Example:
        >>> adamplus.theory.lemma1(error=4.0, movement=0.0, beta=0.5, L_H=1, sigma=1)    # 3/4 · 4 + 2/4
        3.5
    """
    require_numbers(error=error, movement=movement, L_H=L_H, sigma=sigma)
    require_positive(beta=beta, batch=batch)
    return (1 - beta / 2) * error + 2 * beta**2 * sigma**2 / batch + C * L_H**2 * movement / beta**3


def lemma1_adaptive(
    error: float,
    norm2: float,
    lr: float,
    beta: float,
    L_H: float,
    sigma: float,
    batch: int = 1,
    *,
    beta_power: float = 1.0,
) -> float:
    r"""Upper bound of E δ²_{t+1} by the second inequality of Lemma 1, for the step size of Adam⁺ (p = 1/2).

    .. math::
        E\delta_{t+1}^2 \le (1-\beta/2)\,E\delta_t^2 + 2\beta^2\sigma_m^2 + C L_H^2\alpha^4\beta^{4a-3}\,E\|z_t\|^2

    The step size bounds the movement: ‖w_{t+1} − w_t‖⁴ = η_t⁴ ‖z_t‖⁴ ≤ α⁴ β^(4a) ‖z_t‖², whatever ε₀ is.

    Args:
        error: E δ_t², the squared error bound before the step.
        norm2: E‖z_t‖².
        lr: α.
        beta: β.
        L_H: Lipschitz constant of the Hessian.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        batch: m, the samples of a gradient.
        beta_power: a.

    Example:
        >>> adamplus.theory.lemma1_adaptive(4.0, 1.0, lr=0.5, beta=0.5, L_H=0.1, sigma=1)    # 3.5 + 19.44/32
        4.1075
    """
    movement = lr**4 * beta ** (4 * beta_power) * norm2
    return lemma1(error, movement, beta, L_H, sigma, batch)


def lemma1_contraction(
    error: float,
    gradient2: float,
    lr: float,
    beta: float,
    L_H: float,
    sigma: float,
    batch: int = 1,
    *,
    beta_power: float = 1.0,
) -> float:
    r"""Upper bound of E δ²_{t+1} by the remark after Lemma 1, which no longer contains z.

    .. math::
        E\delta_{t+1}^2 \le (1-\beta/4)\,E\delta_t^2 + 2\beta^2\sigma_m^2 + c\,E\|\nabla F(w_t)\|^2,
        \qquad c = 2 C L_H^2\alpha^4\beta^{4a-3}

    The remark calls c a small constant. It follows from ‖z_t‖² ≤ 2δ_t² + 2‖∇F(w_t)‖² if c ≤ β/4, which is
    8 C L_H² α⁴ β^(4a−4) ≤ 1. At rest, where ∇F is 0, the bound of E δ² tends to 8βσ_m²: with a constant β the error of
    z does not go to 0, so β must fall as the run goes on.

    Args:
        error: E δ_t², the squared error bound before the step.
        gradient2: E‖∇F(w_t)‖².
        lr: α.
        beta: β.
        L_H: Lipschitz constant of the Hessian.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        batch: m, the samples of a gradient.
        beta_power: a.

    Raises:
        ValueError: if α is too large for the remark.

    Example:
        >>> adamplus.theory.lemma1_contraction(4.0, 1.0, lr=0.1, beta=0.5, L_H=0.1, sigma=0)    # 7/8 · 4 + 0.001944
        3.501944
    """
    require_numbers(error=error, gradient2=gradient2, L_H=L_H, sigma=sigma)
    require_positive(lr=lr, beta=beta)
    c = 2 * C * L_H**2 * lr**4 * beta ** (4 * beta_power - 3)
    if c > beta / 4:
        raise ValueError(f"the remark after Lemma 1 needs 2 C L_H² α⁴ β^(4a−3) ≤ β/4, got {c:.4g} > {beta / 4:.4g}")
    return (1 - beta / 4) * error + 2 * beta**2 * sigma**2 / batch + c * gradient2


def lemma2(gradient: float, error: float, lr: float, beta: float, L: float) -> float:
    r"""Upper bound of F(w_{t+1}) − F(w_t) by Lemma 2, the descent lemma of Theorem 2 (p = 1/2, a = 1, ε₀ = 0).

    .. math::
        F(w_{t+1})-F(w_t) \le \alpha\beta\left(-\frac{\|\nabla F(w_t)\|^{3/2}}{6}
        + 9\,\|z_t-\nabla F(w_t)\|^{3/2}\right) + \frac{64\,\alpha^4\beta^4L^3}{3}

    A step lowers F unless z is wrong. It holds for every z, and for every α and β.

    Slips of the paper:
        - Its second case divides by ‖Δ‖^(1/2), Δ = z − ∇F, in place of ‖∇F + Δ‖^(1/2), which can be smaller. By
          Cauchy–Schwarz the term is at most √3 · 2 ‖Δ‖^(3/2), which is below the 6 ‖Δ‖^(3/2) that the proof states.
        - Its last chain of inequalities begins with +‖∇F‖^(3/2)/3. The lines after it have the minus.

    Args:
        gradient: ‖∇F(w_t)‖.
        error: ‖z_t − ∇F(w_t)‖.
        lr: α.
        beta: β.
        L: Lipschitz constant of ∇F.

    Example:
        >>> adamplus.theory.lemma2(gradient=36.0, error=0.0, lr=0.5, beta=0.5, L=0)    # −216/6 · 1/4
        -9.0
    """
    return lr * beta * (9 * error**1.5 - gradient**1.5 / 6) + 64 * (lr * beta) ** 4 * L**3 / 3


def lemma3(error: float, movement: float, beta: float, L_H: float, sigma: float, batch: int = 1) -> float:
    r"""Upper bound of E δ_{t+1}^(3/2) by Lemma 3, which is Lemma 1 with the power 3/2 that Theorem 2 needs.

    .. math::
        E\delta_{t+1}^{3/2} \le (1-\beta/2)\,E\delta_t^{3/2} + 2\beta^{3/2}\sigma_m^{3/2}
        + 320\,L_H^{3/2}\,E\|w_{t+1}-w_t\|^3/\beta^2

    This δ_t is not that of Lemma 1: δ_t^(3/2) = 2 L_H^(3/2) (m_t + 4 q_t²)^(3/2) + 2‖n_t‖^(3/2), with the same means.

    Args:
        error: E δ_t^(3/2), before the step.
        movement: E‖w_{t+1} − w_t‖³, the third power of the step length.
        beta: β.
        L_H: Lipschitz constant of the Hessian.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample.
        batch: m, the samples of a gradient.

    Example:
        >>> adamplus.theory.lemma3(error=8.0, movement=0.0, beta=0.25, L_H=1, sigma=1)    # 7/8 · 8 + 2/8
        7.25
    """
    require_numbers(error=error, movement=movement, L_H=L_H, sigma=sigma)
    require_positive(beta=beta, batch=batch)
    noise = 2 * beta**1.5 * (sigma**2 / batch) ** 0.75
    return (1 - beta / 2) * error + noise + 320 * L_H**1.5 * movement / beta**2
