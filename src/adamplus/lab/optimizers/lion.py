"""Lion (Chen et al., *Symbolic Discovery of Optimization Algorithms*, 2023): sign steps from one buffer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT


class Lion(Optimizer):
    r"""Lion steps by the signs of an average that weighs the newest gradient more than its buffer does.

    .. math::
        w_t &= (1 - \text{lr} \lambda) w_{t-1} - \text{lr} \, \text{sign}(\beta_1 m_{t-1} + (1 - \beta_1) g_t) \\
        m_t &= \beta_2 m_{t-1} + (1 - \beta_2) g_t, \qquad m_0 = 0

    Args:
        params: parameters or parameter groups.
        lr: the size of a step in every coordinate; a float or a 0-dim tensor.
        betas: (β₁, β₂), each in [0, 1).
        weight_decay: λ, decoupled from the gradient.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        if not lr >= 0:
            raise ValueError(f"lr must be at least 0, got {lr}")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be in [0, 1), got {betas}")
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay must be at least 0, got {weight_decay}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take a step; returns the closure's loss, if there is a closure."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            gradients = [p.grad for p in params]
            for p in params:
                if not self.state[p]:
                    self.state[p]["average"] = torch.zeros_like(p)
            averages = [self.state[p]["average"] for p in params]
            steps = torch._foreach_lerp(averages, gradients, 1 - beta1)
            torch._foreach_sign_(steps)
            torch._foreach_mul_(steps, -lr)
            if decay != 0:
                torch._foreach_mul_(params, 1 - lr * decay)
            torch._foreach_add_(params, steps)
            torch._foreach_lerp_(averages, gradients, 1 - beta2)
        return loss
