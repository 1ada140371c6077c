"""Lemma 1: how the error of z shrinks from one step to the next."""
# ruff: noqa: N803 (the paper's letters)

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

    Slip of the paper: the end of the proof, and the remark after the lemma, have L² for L_H².

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
    return (1 - beta / 2) * error + 2 * beta**2 * sigma**2 / batch + C * L_H**2 * movement / beta**3
