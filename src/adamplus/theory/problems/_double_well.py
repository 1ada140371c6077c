"""The double well: a double well in each of d coordinates, with known constants and the same noise everywhere."""

import math

import torch
from torch import Tensor

from ._problem import Problem


class DoubleWell(Problem):
    r"""Double well: F(w) = Σ_i h(w_i), where h has two minima, a maximum between them and slopes of at most about 1.

    .. math::
        h(x) = \sqrt{1+x^2} + c\,e^{-x^2/2}, \qquad
        f(w;\xi) = F(w) + \frac{\sigma}{\kappa\sqrt d} \sum_i (a_i\sin\kappa w_i - b_i\cos\kappa w_i),
        \quad a, b \sim N(0, I)

    The noise of a gradient, (σ/√d)(a_i cos κw_i + b_i sin κw_i), has variance exactly σ² at every point. A batch of m
    has variance σ²/m, and is drawn at once for any m. The wave number κ determines how much of the noise two points
    share: ℓ² = L² + κ²σ²/d. With κ = 0 the noise is the same at all points. The difference of two gradients of a sample
    is then exact, which favours methods that use such differences.

    L, L_H and G/√d are the largest |h''|, |h'''| and |h'|. They are found on a fine grid and enlarged by a millionth,
    which is more than the grid can miss. They do not depend on d.

    Args:
        dim: d, the number of coordinates.
        sigma: σ, the standard deviation of the noise of one sample.
        depth: c, which must be more than 1: otherwise there is only one well.
        wave: κ, the wave number of the noise.
        dtype: dtype of all tensors.
        device: device of all tensors. Default: the CPU.

    Example:
        >>> problem = adamplus.theory.problems.DoubleWell(dim=10, sigma=1.0)
        >>> round(problem.L, 3), round(problem.L_H, 3)
        (1.023, 2.047)
        >>> round(problem.gap(torch.zeros(1, 10, dtype=torch.float64)), 3)     # from the top between the wells
        5.58
    """

    def __init__(
        self,
        dim: int = 10,
        sigma: float = 1.0,
        *,
        depth: float = 2.0,
        wave: float = 1.0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        if dim < 1:
            raise ValueError(f"dim must be at least 1, got {dim}")
        if not depth > 1:
            raise ValueError(f"depth must be more than 1, got {depth}: otherwise there is only one well")
        if not (0 <= sigma < math.inf and 0 <= wave < math.inf):
            raise ValueError(f"sigma and wave must be finite and at least 0, got {sigma} and {wave}")
        super().__init__(dim, dtype, device)
        self.depth: float = depth
        self.wave: float = wave
        self.sigma: float = sigma
        x = torch.linspace(0, 8, 80_001, dtype=torch.float64)  # beyond 8 only √(1+x²) is left, and its derivatives fall
        slope, bend, third = self._derivatives(x)
        self.L, self.L_H, steepest = (float(values.abs().max()) * (1 + 1e-6) for values in (bend, third, slope))
        self.G: float = dim**0.5 * max(1.0, steepest)  # 1 is the slope at infinity
        self.smoothness: float = (self.L**2 + (wave * sigma) ** 2 / dim) ** 0.5
        self.minimum: float = dim * float(((1 + x**2).sqrt() + depth * (-(x**2) / 2).exp()).min()) * (1 - 1e-6)

    def _derivatives(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The derivatives h', h'' and h''' at x."""
        root, bell = (1 + x**2).sqrt(), self.depth * (-(x**2) / 2).exp()
        return x / root - x * bell, root**-3 - (1 - x**2) * bell, (3 * x - x**3) * bell - 3 * x * root**-5

    def start(self, runs: int, generator: torch.Generator | None = None) -> Tensor:
        """Return normal starting points of standard deviation 3, which lie on the slopes and on the ridge."""
        return 3 * self._normal(runs, self.dim, generator=generator)

    def draw(self, runs: int, batch: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the means of `batch` draws of a and of b."""
        a, b = self._normal(2, runs, self.dim, generator=generator) / batch**0.5
        return a, b

    def value(self, w: Tensor, sample: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Return F at every row of w, or the estimate of F by a sample."""
        value = ((1 + w**2).sqrt() + self.depth * (-(w**2) / 2).exp()).sum(1)
        return value if sample is None else value + self.tilt(w, sample)

    def tilt(self, w: Tensor, sample: tuple[Tensor, Tensor]) -> Tensor:
        """Return the difference of the sample's value and F at every row of w. Its gradient is `noise()`."""
        a, b = sample
        # (sin κw)/κ and (1 − cos κw)/κ: the integrals of the noise that are 0 at 0 and have a limit at κ = 0
        sine = torch.sinc(self.wave * w / math.pi) * w
        cosine = self.wave * (torch.sinc(self.wave * w / (2 * math.pi)) * w) ** 2 / 2
        return self.sigma / self.dim**0.5 * (a * sine + b * cosine).sum(1)

    def gradient(self, w: Tensor, sample: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Return ∇F at every row of w, or the estimate of ∇F by a sample."""
        gradient = w * ((1 + w**2).rsqrt() - self.depth * (-(w**2) / 2).exp())
        return gradient if sample is None else gradient + self.noise(w, sample)

    def noise(self, w: Tensor, sample: tuple[Tensor, Tensor]) -> Tensor:
        """Return the difference of the sample's gradient and ∇F at every row of w."""
        a, b = sample
        return self.sigma / self.dim**0.5 * (a * (self.wave * w).cos() + b * (self.wave * w).sin())
