"""Logistic regression with a nonconvex penalty, whose constants are computed from the data."""

import math
from typing import Any

import torch
from torch import Tensor

from ._problem import FiniteSum

# The largest |r'|, |r''| and |r'''| of r(x) = x²/(1 + x²): at x = 1/√3, at 0, and at x² = 1 − 2/√5.
PENALTY = (3 * math.sqrt(3) / 8, 2.0, 24 * math.sqrt(1 - 2 / math.sqrt(5)) * (2 / math.sqrt(5)) / (2 - 2 / 5**0.5) ** 4)


class Logistic(FiniteSum):
    r"""Logistic regression: F(w) = mean over rows of log(1 + exp(−y_i x_i·w)) + λ Σ_j w_j²/(1 + w_j²).

    The penalty is bounded and nonconvex, as in many papers of this field. A sample is rows drawn with replacement. The
    constants follow from the data and the largest derivatives of both parts, which are 1/4 and 1/(6√3) for the
    logistic loss:

    - L = λ_max(XᵀX/n)/4 + 2λ,
    - L_H = λ_max(mean of ‖x_i‖ x_i x_iᵀ)/(6√3) + 4.669λ,
    - G = min(mean‖x_i‖, λ_max(XᵀX/n)^(1/2)) + 0.650 λ √d,
    - σ² = mean‖x_i‖², ℓ² = mean of (‖x_i‖²/4 + 2λ)²,
    - inf F ≥ 0: `minimum` is this 0, not the infimum itself.

    Args:
        inputs: X, of shape (rows, d). Default: 200 fixed rows of 10 normal numbers.
        targets: y, each +1 or −1. Default: the sides of a plane, with one in ten wrong.
        penalty: λ, the weight of the penalty.
        dtype: dtype of all tensors.
        device: device of all tensors. Default: the CPU.

    Example:
        >>> problem = adamplus.theory.problems.Logistic()
        >>> w = problem.start(runs=2)
        >>> [round(value, 4) for value in problem.value(w).tolist()]             # log 2 at w = 0
        [0.6931, 0.6931]
        >>> bool((problem.variance(w) <= problem.sigma**2).all())
        True
    """

    def __init__(
        self,
        inputs: Tensor | None = None,
        targets: Tensor | None = None,
        *,
        penalty: float = 0.1,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        if not 0 <= penalty < math.inf:
            raise ValueError(f"penalty must be finite and at least 0, got {penalty}")
        if inputs is None or targets is None:
            inputs, targets = _sides_of_a_plane(200, 10)
        if inputs.ndim != 2 or targets.shape != inputs.shape[:1] or not bool((targets.abs() == 1).all()):
            raise ValueError(
                f"inputs must be (rows, d) and targets (rows,) of +1 and −1, got {tuple(inputs.shape)} and "
                f"{tuple(targets.shape)}"
            )
        super().__init__(inputs, targets, inputs.shape[1], dtype, device)
        self.penalty: float = penalty
        x = self.inputs.double()
        lengths = x.norm(dim=1)
        largest = _largest_eigenvalue(x.T @ x / len(x))
        slope, bend, third = (penalty * constant for constant in PENALTY)
        self.L: float = largest / 4 + bend
        self.L_H: float = _largest_eigenvalue(x.T @ (lengths[:, None] * x) / len(x)) / (6 * math.sqrt(3)) + third
        self.G: float = min(float(lengths.mean()), largest**0.5) + slope * self.dim**0.5
        self.sigma: float = float(lengths.square().mean()) ** 0.5
        self.smoothness: float = float((lengths.square() / 4 + bend).square().mean()) ** 0.5
        self.minimum: float = 0.0

    def start(self, runs: int, generator: torch.Generator | None = None) -> Tensor:
        """Return zero as the starting point of every run."""
        return torch.zeros(runs, self.dim, dtype=self.dtype, device=self.device)

    def losses(self, w: Tensor) -> Tensor:
        """Return the loss of every row of data, penalty included, at every row of w."""
        margins = (w @ self.inputs.T) * self.targets
        bounded = (w**2 / (1 + w**2)).sum(1, keepdim=True)
        return torch.nn.functional.softplus(-margins) + self.penalty * bounded

    def gradient(self, w: Tensor, sample: Any = None) -> Tensor:
        """Return ∇F at every row of w, or the estimate of ∇F by a sample."""
        margins = (w @ self.inputs.T) * self.targets
        weights = 1 / len(self.inputs) if sample is None else sample
        pulls = -self.targets * torch.sigmoid(-margins) * weights
        return pulls @ self.inputs + self.penalty * 2 * w / (1 + w**2) ** 2


def _sides_of_a_plane(rows: int, dim: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(rows, dim, generator=generator, dtype=torch.float64)
    plane = torch.randn(dim, generator=generator, dtype=torch.float64)
    targets = torch.where(inputs @ plane > 0, 1.0, -1.0)
    return inputs, torch.where(torch.rand(rows, generator=generator) < 0.1, -targets, targets)


def _largest_eigenvalue(matrix: Tensor) -> float:
    return float(torch.linalg.eigvalsh(matrix)[-1])
