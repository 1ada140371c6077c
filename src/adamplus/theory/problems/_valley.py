"""The valley: a problem that is hard at every accuracy, like the worst cases of the theorems."""

import math

import torch
from torch import Tensor

from ._double_well import DoubleWell

SHIFT = 1.0
"""Distance of a wall's largest curvature from the floor, so that the third derivative is not 0 on the floor."""
LEVEL = 1 / (1 + math.exp(SHIFT))
"""Slope of the softplus on the floor, subtracted from the walls so that they are level there."""


class Valley(DoubleWell):
    r"""Valley with a long floor that falls by 2ε per unit, between walls that bend as sharply as L and L_H allow.

    .. math::
        F(w) = 2\epsilon\sqrt{1 + w_1^2} + \sum_{i>1} u(w_i), \qquad
        u(y) = 4\,(\log(1 + e^{y-1}) - y/(1 + e))

    Runs start on the floor, at distance Δ/(2ε) from its end, and ‖∇F‖ ≤ ε only near the end. A method must take long
    steps to get there, but the longer they are, the higher noise throws it up the walls. L, L_H, σ and Δ do not depend
    on ε. Worst cases are of this kind, with a new function for every ε, and SGD needs about ε^−4 evaluations on this
    one. A single function such as the double well cannot show such a rate: its wells are bowls, where every method is
    fast.

    Args:
        epsilon: ε, the accuracy for which the valley is hard.
        dim: d, the number of coordinates.
        sigma: σ, the standard deviation of the noise, which is that of `DoubleWell`.
        gap: Δ, the height of the start above the minimum.
        dtype: dtype of all tensors.
        device: device of all tensors. Default: the CPU.

    Example:
        >>> problem = adamplus.theory.problems.Valley(epsilon=0.1)
        >>> w = problem.start(runs=2)
        >>> round(problem.gap(w), 6)                                    # Δ, for every ε
        1.0
        >>> [round(norm, 3) for norm in problem.gradient(w).norm(dim=1).tolist()]      # 2ε, nearly
        [0.197, 0.197]
    """

    def __init__(
        self,
        epsilon: float,
        dim: int = 10,
        sigma: float = 1.0,
        gap: float = 1.0,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        if not (0 < epsilon < math.inf and 0 < gap < math.inf):
            raise ValueError(f"epsilon and gap must be finite and above 0, got {epsilon} and {gap}")
        super().__init__(dim, sigma, dtype=dtype, device=device)
        self.epsilon: float = epsilon
        y = torch.linspace(-20, 20, 80_001, dtype=torch.float64)
        curve = torch.sigmoid(y) * torch.sigmoid(-y)
        # the floor's derivatives are at most 2ε and 2ε · 0.86, which are smaller for every ε in use
        self.L: float = max(2 * epsilon, 4 * float(curve.max())) * (1 + 1e-6)
        self.L_H: float = max(2 * epsilon, 4 * float((curve * (1 - 2 * torch.sigmoid(y))).abs().max())) * (1 + 1e-6)
        self.G: float = ((2 * epsilon) ** 2 + (dim - 1) * 4**2) ** 0.5
        self.smoothness: float = (self.L**2 + (self.wave * sigma) ** 2 / dim) ** 0.5
        floor = torch.zeros(1, dim, dtype=torch.float64, device=self.device)
        self.minimum: float = float(self.value(floor))
        self.length: float = ((gap / (2 * epsilon) + 1) ** 2 - 1) ** 0.5

    def start(self, runs: int, generator: torch.Generator | None = None) -> Tensor:
        """Return the far end of the floor as the starting point of every run."""
        w = torch.zeros(runs, self.dim, dtype=self.dtype, device=self.device)
        w[:, 0] = self.length
        return w

    def value(self, w: Tensor, sample: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Return F at every row of w, or the estimate of F by a sample."""
        walls = 4 * (torch.nn.functional.softplus(w[:, 1:] - SHIFT) - w[:, 1:] * LEVEL)
        value = 2 * self.epsilon * (1 + w[:, 0] ** 2).sqrt() + walls.sum(1)
        return value if sample is None else value + self.tilt(w, sample)

    def gradient(self, w: Tensor, sample: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Return ∇F at every row of w, or the estimate of ∇F by a sample."""
        gradient = 4 * (torch.sigmoid(w - SHIFT) - LEVEL)
        gradient[:, 0] = 2 * self.epsilon * w[:, 0] * (1 + w[:, 0] ** 2).rsqrt()
        return gradient if sample is None else gradient + self.noise(w, sample)
