"""Base classes of problems: values, gradients, samples of both, and the constants that the theorems need."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor


class Problem(ABC):
    """Base class of a function F to minimise, with noise, for many runs at once.

    Points are rows: w has shape (runs, dim), and every result has a leading dimension of runs. Each run has its own
    noise. A sample is drawn once and can be evaluated at any point, as methods that compare two points need.

    Attributes:
        dim: number of coordinates of a point.
        L: Lipschitz constant of ∇F.
        L_H: Lipschitz constant of the Hessian.
        G: the largest ‖∇F‖.
        sigma: σ, with E‖g − ∇F‖² ≤ σ² for the gradient g of one sample, at every point.
        smoothness: ℓ with E‖g(x) − g(y)‖² ≤ ℓ²‖x − y‖² for the gradients of one sample at any two points. The paper's
            Table 1 calls it individual smoothness. SPIDER, STORM and similar methods need it in this mean.
        minimum: inf F, or a number below it.
        exact: whether the constants are proved. If False, they are estimates.

    Example:
        >>> problem = adamplus.theory.problems.DoubleWell(dim=3, sigma=0.5)
        >>> generator = torch.Generator().manual_seed(0)
        >>> w = problem.start(runs=8, generator=generator)
        >>> gradient, sample = problem.sample(w, batch=4, generator=generator)
        >>> torch.equal(gradient, problem.gradient(w, sample))         # the same sample, again
        True
        >>> problem.value(w).shape, problem.gradient(w).shape
        (torch.Size([8]), torch.Size([8, 3]))
    """

    dim: int
    L: float
    L_H: float
    G: float
    sigma: float
    smoothness: float
    minimum: float
    exact: bool = True

    def __init__(self, dim: int, dtype: torch.dtype, device: torch.device | str | None) -> None:
        self.dim = dim
        self.dtype: torch.dtype = dtype
        self.device: torch.device = torch.device(device or "cpu")

    @abstractmethod
    def start(self, runs: int, generator: torch.Generator | None = None) -> Tensor:
        """Return the starting points of the runs, of shape (runs, dim)."""

    @abstractmethod
    def draw(self, runs: int, batch: int, generator: torch.Generator | None = None) -> Any:
        """Return a sample of `batch` draws for every run, which can be evaluated at any point."""

    @abstractmethod
    def value(self, w: Tensor, sample: Any = None) -> Tensor:
        """Return F at every row of w, or the estimate of F by a sample."""

    def gradient(self, w: Tensor, sample: Any = None) -> Tensor:
        """Return ∇F at every row of w, or the estimate of ∇F by a sample."""
        with torch.enable_grad():
            w = w.detach().requires_grad_()
            return torch.autograd.grad(self.value(w, sample).sum(), w)[0]

    def sample(self, w: Tensor, batch: int, generator: torch.Generator | None = None) -> tuple[Tensor, Any]:
        """Return a stochastic gradient at w, and its sample."""
        sample = self.draw(len(w), batch, generator)
        return self.gradient(w, sample), sample

    def gap(self, w: Tensor) -> float:
        """Return Δ, the largest difference of F at a row of w and `minimum`."""
        return float(self.value(w).max()) - self.minimum

    def _normal(self, *shape: int, generator: torch.Generator | None) -> Tensor:
        """Return normal numbers, drawn on the generator's device: a seed gives the same numbers on every device."""
        made = generator.device if generator is not None else self.device
        return torch.randn(shape, generator=generator, dtype=self.dtype, device=made).to(self.device)


class FiniteSum(Problem):
    """Base class of an F that is the mean of one function per row of data.

    A sample is rows drawn with replacement, stored as the weights of the rows.
    """

    def __init__(self, inputs: Tensor, targets: Tensor, dim: int, dtype: torch.dtype, device: Any) -> None:
        super().__init__(dim, dtype, device)
        self.inputs: Tensor = inputs.to(self.device, dtype)
        self.targets: Tensor = targets.to(self.device, dtype)

    @abstractmethod
    def losses(self, w: Tensor) -> Tensor:
        """Return the loss of every row of data at every row of w, of shape (runs, rows)."""

    def draw(self, runs: int, batch: int, generator: torch.Generator | None = None) -> Tensor:
        """Return how often each row was drawn, divided by the batch size, of shape (runs, rows)."""
        rows = len(self.inputs)
        made = generator.device if generator is not None else self.device
        drawn = torch.randint(rows, (runs, batch), generator=generator, device=made).to(self.device)
        counts = torch.zeros(runs, rows, dtype=self.dtype, device=self.device)
        return counts.scatter_add_(1, drawn, counts.new_ones(1, 1).expand(runs, batch)).div_(batch)

    def value(self, w: Tensor, sample: Tensor | None = None) -> Tensor:
        """Return F at every row of w, or the estimate of F by a sample."""
        losses = self.losses(w)
        return losses.mean(1) if sample is None else (losses * sample).sum(1)

    def variance(self, w: Tensor) -> Tensor:
        """Return the exact E‖g − ∇F‖² for the gradient g of one row of data, at every row of w."""
        rows = len(self.inputs)
        one_each = torch.eye(rows, dtype=self.dtype, device=self.device)
        each = [self.gradient(point.expand(rows, -1), one_each) for point in w]
        return torch.stack([(g - g.mean(0)).square().sum(1).mean() for g in each])
