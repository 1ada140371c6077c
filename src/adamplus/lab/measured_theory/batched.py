"""Algorithm 1 for many runs at once: row i of every tensor is run i, with a norm of its own."""

import torch
from torch import Tensor


class AdamPlusRows:
    """The family (any p and a) on the rows of w; tested against `AdamPlusReference`.

    Args:
        w: where the runs start, of shape (runs, dim).
        lr: α.
        beta: β.
        beta_power: a.
        norm_power: p.
        eps: ε₀.
        extrapolate: take gradients at ŵ; without, at w, and z is a plain moving average.
    """

    def __init__(
        self,
        w: Tensor,
        lr: float = 0.1,
        beta: float = 0.1,
        *,
        beta_power: float = 1.0,
        norm_power: float = 0.5,
        eps: float = 1e-8,
        extrapolate: bool = True,
    ) -> None:
        self.w = self.at = w.clone()
        """w, and where the next gradient is to be taken."""
        self.z: Tensor | None = None
        self.beta, self.length = beta, lr * beta**beta_power
        self.norm_power, self.eps, self.extrapolate = norm_power, eps, extrapolate

    def step(self, g: Tensor) -> None:
        """One step of every run, with the gradient at `at`."""
        self.z = g if self.z is None else torch.lerp(self.z, g, self.beta)
        norm = torch.linalg.vector_norm(self.z, dim=1, keepdim=True)
        move = self.length / norm.pow(self.norm_power).clamp(min=self.eps) * self.z
        if self.eps == 0:
            move = torch.where(norm > 0, move, 0.0)
        self.at = self.w - move / self.beta if self.extrapolate else self.w - move
        self.w = self.w - move
