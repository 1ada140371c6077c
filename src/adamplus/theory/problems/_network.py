"""A small neural network: a realistic problem, whose constants can only be estimated."""

import torch
from torch import Tensor

from ._problem import FiniteSum


class Network(FiniteSum):
    r"""Small neural network with one tanh layer: F(w) = mean squared error on a smooth function + (λ/2)‖w‖².

    The gradient is not globally Lipschitz, so no constants L, L_H, G and σ hold for all points. The constants here are
    estimates (`exact` is False): the largest values at `points` random points, drawn like the starting points, times
    `margin`. L_H is estimated from pairs of neighbours. Use them to choose settings, not to prove anything.

    Args:
        inputs: data of shape (rows, features). Default: 64 fixed rows of 4 normal numbers.
        targets: targets of shape (rows,). Default: the sum of the sines of the inputs.
        hidden: number of units of the layer.
        decay: λ, the weight decay.
        points: number of points at which the constants are estimated.
        margin: factor by which the estimates are enlarged.
        dtype: dtype of all tensors.
        device: device of all tensors. Default: the CPU.

    Example:
        >>> problem = adamplus.theory.problems.Network(hidden=3)
        >>> problem.dim, problem.exact                       # 4 · 3 weights, 3 biases, 3 weights, 1 bias
        (19, False)
        >>> problem.value(problem.start(runs=5)).shape
        torch.Size([5])
    """

    exact = False

    def __init__(
        self,
        inputs: Tensor | None = None,
        targets: Tensor | None = None,
        *,
        hidden: int = 4,
        decay: float = 1e-3,
        points: int = 16,
        margin: float = 2.0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        if hidden < 1 or points < 1 or not margin >= 1 or not decay >= 0:
            raise ValueError(
                "hidden and points must be at least 1, margin at least 1 and decay at least 0, "
                f"got {hidden}, {points}, {margin} and {decay}"
            )
        if inputs is None or targets is None:
            inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            targets = inputs.sin().sum(1)
        if inputs.ndim != 2 or targets.shape != inputs.shape[:1]:
            raise ValueError(
                f"inputs must be (rows, features) and targets (rows,), got {tuple(inputs.shape)} and "
                f"{tuple(targets.shape)}"
            )
        features = inputs.shape[1]
        super().__init__(inputs, targets, (features + 2) * hidden + 1, dtype, device)
        self.hidden: int = hidden
        self.decay: float = decay
        self.minimum: float = 0.0
        self._estimate(points, margin)

    def start(self, runs: int, generator: torch.Generator | None = None) -> Tensor:
        """Return normal starting points of standard deviation 1/2."""
        return self._normal(runs, self.dim, generator=generator) / 2

    def losses(self, w: Tensor) -> Tensor:
        """Return the squared error of every row of data, decay included, at every row of w."""
        features, hidden = self.inputs.shape[1], self.hidden
        first, bias, second, last = w.split([features * hidden, hidden, hidden, 1], dim=1)
        units = torch.einsum("nf,rfh->rnh", self.inputs, first.unflatten(1, (features, hidden)))
        outputs = ((units + bias[:, None]).tanh() * second[:, None]).sum(2) + last
        return (outputs - self.targets) ** 2 + self.decay / 2 * (w**2).sum(1, keepdim=True)

    def _estimate(self, points: int, margin: float) -> None:
        generator = torch.Generator().manual_seed(1)
        w = self.start(points, generator)
        near = w + 0.01 * self.start(points, generator)
        hessian = torch.func.vmap(torch.func.hessian(lambda point: self.value(point[None])[0]))
        here, there = hessian(w), hessian(near)
        turned = torch.linalg.matrix_norm(here - there, 2) / (w - near).norm(dim=1)
        self.L: float = margin * float(torch.linalg.matrix_norm(here, 2).max())
        self.L_H: float = margin * float(turned.max())
        self.G: float = margin * float(self.gradient(w).norm(dim=1).max())
        self.sigma: float = margin * float(self.variance(w).max()) ** 0.5
        self.smoothness: float = margin * self._turning(w, near)

    def _turning(self, w: Tensor, near: Tensor) -> float:
        """The largest root mean square change of single rows' gradients from w to near, per distance: an ℓ."""
        rows = len(self.inputs)
        one_each = torch.eye(rows, dtype=self.dtype, device=self.device)
        changes = [
            self.gradient(a.expand(rows, -1), one_each) - self.gradient(b.expand(rows, -1), one_each)
            for a, b in zip(w, near, strict=True)
        ]
        means = torch.stack([change.square().sum(1).mean().sqrt() for change in changes])
        return float((means / (w - near).norm(dim=1)).max())
