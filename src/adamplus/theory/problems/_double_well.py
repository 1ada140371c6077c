"""The double well: d wells in a row, every constant known, and noise that is the same everywhere."""

import math

import torch
from torch import Tensor

from ._problem import Problem


class DoubleWell(Problem):
    r"""F(w) = Σ_i h(w_i), where h has two minima, a maximum between them and slopes of at most about 1.

    .. math::
        h(x) = \sqrt{1+x^2} + c\,e^{-x^2/2}, \qquad
        f(w;\xi) = F(w) + \frac{\sigma}{\kappa\sqrt d} \sum_i (a_i\sin\kappa w_i - b_i\cos\kappa w_i),
        \quad a, b \sim N(0, I)

    The noise of a gradient, (σ/√d)(a_i cos κw_i + b_i sin κw_i), has variance exactly σ² at every point, and σ²/m for
    a batch of m, which is drawn at once whatever m is. Its wave number κ says how much two points share of it:
    ℓ² = L² + κ²σ²/d. With κ = 0 (noise that no point changes) the difference of two gradients of a sample is exact,
    and methods that live by it are flattered.

    L, L_H and G/√d are the largest |h''|, |h'''| and |h'|, found on a fine grid and enlarged by a millionth, which is
    more than the grid can miss; they do not depend on d.

    Args:
        dim: d.
        sigma: σ.
        depth: c, more than 1, or there would be one well.
        wave: κ.
        dtype: of everything that is computed.
        device: where it is computed.

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
            raise ValueError(f"depth must be more than 1, got {depth}: with less there is one well")
        if not (0 <= sigma < math.inf and 0 <= wave < math.inf):
            raise ValueError(f"sigma and wave must be finite and at least 0, got {sigma} and {wave}")
        super().__init__(dim, dtype, device)
        self.depth: float = depth
        self.wave: float = wave
        self.sigma: float = sigma
        x = torch.linspace(0, 8, 80_001, dtype=torch.float64)  # beyond, √(1+x²) is alone, and its derivatives fall
        slope, bend, third = self._derivatives(x)
        self.L, self.L_H, steepest = (float(values.abs().max()) * (1 + 1e-6) for values in (bend, third, slope))
        self.G: float = dim**0.5 * max(1.0, steepest)  # 1 is the slope far out
        self.smoothness: float = (self.L**2 + (wave * sigma) ** 2 / dim) ** 0.5
        self.minimum: float = dim * float(((1 + x**2).sqrt() + depth * (-(x**2) / 2).exp()).min()) * (1 - 1e-6)

    def _derivatives(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """h', h'' and h'''."""
        root, bell = (1 + x**2).sqrt(), self.depth * (-(x**2) / 2).exp()
        return x / root - x * bell, root**-3 - (1 - x**2) * bell, (3 * x - x**3) * bell - 3 * x * root**-5

    def start(self, runs: int, generator: torch.Generator | None = None) -> Tensor:
        """Out on the slopes and on the ridge: normal numbers, twice as wide as the wells are apart from the ridge."""
        return 3 * self._normal(runs, self.dim, generator=generator)

    def draw(self, runs: int, batch: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The means of `batch` draws of a and of b."""
        a, b = self._normal(2, runs, self.dim, generator=generator) / batch**0.5
        return a, b

    def value(self, w: Tensor, sample: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """F at every row of w, or the sample's estimate of it."""
        value = ((1 + w**2).sqrt() + self.depth * (-(w**2) / 2).exp()).sum(1)
        return value if sample is None else value + self.tilt(w, sample)

    def tilt(self, w: Tensor, sample: tuple[Tensor, Tensor]) -> Tensor:
        """What the sample's value has beyond F at every row of w: its gradient is `noise`."""
        a, b = sample
        # (sin κw)/κ and (1 − cos κw)/κ, the integrals that are 0 at 0 and have a limit at κ = 0
        sine = torch.sinc(self.wave * w / math.pi) * w
        cosine = self.wave * (torch.sinc(self.wave * w / (2 * math.pi)) * w) ** 2 / 2
        return self.sigma / self.dim**0.5 * (a * sine + b * cosine).sum(1)

    def gradient(self, w: Tensor, sample: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """∇F at every row of w, or the sample's estimate of it."""
        gradient = w * ((1 + w**2).rsqrt() - self.depth * (-(w**2) / 2).exp())
        return gradient if sample is None else gradient + self.noise(w, sample)

    def noise(self, w: Tensor, sample: tuple[Tensor, Tensor]) -> Tensor:
        """What the sample's gradient has beyond ∇F at every row of w."""
        a, b = sample
        return self.sigma / self.dim**0.5 * (a * (self.wave * w).cos() + b * (self.wave * w).sin())
