"""Algorithm 1 as printed in the paper, with w, ŵ and z all stored. Other implementations are tested against it."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from . import _settings


class ReferenceOptimizer(Optimizer):
    """What the references share: w and ŵ are both stored, and the parameters hold one of them."""

    training: bool = True

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "training": self.training}

    def loss_before_step(self, closure: Callable[[], Any] | None) -> Any:
        """The closure's loss. Raise in eval mode, in which gradients would be taken at w."""
        if not self.training:
            raise RuntimeError("step() in eval mode: gradients belong to ŵ. Call train() before the forward pass")
        if closure is None:
            return None
        with torch.enable_grad():
            return closure()

    @torch.no_grad()
    def train(self, mode: bool = True) -> None:
        """Put ŵ into the parameters."""
        for p, state in self.state.items():
            p.copy_(state["w_hat" if mode else "w"])
        self.training = mode

    def eval(self) -> None:
        """Put w into the parameters."""
        self.train(False)


class AdamPlusReference(ReferenceOptimizer):
    r"""Adam⁺ as printed in the paper, for any power p of the norm and any power a of β. It is slow and easy to check.

    .. math::
        z_t &= (1-\beta) z_{t-1} + \beta g_t(\hat w_t), \qquad z_0 = g_0(w_0) \\
        \eta_t &= \alpha\beta^a / \max(\|z_t\|^p, \epsilon_0) \\
        w_{t+1} &= w_t - \eta_t z_t \\
        \hat w_{t+1} &= (1 - 1/\beta) w_t + (1/\beta) w_{t+1} = w_{t+1} + (1/\beta - 1) (w_{t+1} - w_t)

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: α.
        beta: β in (0, 1], the weight of the new gradient.
        beta_power: a, the power of β in the step size.
        norm_power: p, the power of ‖z‖ that divides the step.
        eps: ε₀, the smallest value that the step is divided by.
        lookahead: ℓ in ŵ_{t+1} = w_{t+1} + ℓ (w_{t+1} − w_t). Default: the paper's 1/β − 1.
        weight_decay: λ, added to the gradient as λ ŵ, or applied to w if `decoupled_weight_decay`.
        decoupled_weight_decay: shrink w to (1 − lr·λ) w before the step, instead of adding λ ŵ to the gradient.
        maximize: maximize the objective instead of minimizing it.
        norm_scope: the vector whose norm divides the step: all "global" groups, each "group", or each "tensor".

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([4.0, 0.0]))
        >>> optimizer = adamplus.AdamPlusReference([w], lr=0.1, beta=0.5)
        >>> w.grad = torch.tensor([4.0, 0.0])
        >>> optimizer.step()                     # η = 0.1 · 0.5 / √4 = 0.025; ŵ = 4 − (0.025 / 0.5) · 4
        >>> w.data, optimizer.state[w]["w"]
        (tensor([3.8000, 0.0000]), tensor([3.9000, 0.0000]))

    References:
        Liu, Zhang, Orabona and Yang, *Adam⁺: A Stochastic Method with Adaptive Variance Reduction*, 2020.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.1,
        beta: float | Tensor = 0.1,
        *,
        beta_power: float = 1.0,
        norm_power: float = 0.5,
        eps: float = 1e-8,
        lookahead: float | None = None,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
        norm_scope: str = "global",
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr,
            "beta": beta,
            "beta_power": beta_power,
            "norm_power": norm_power,
            "eps": eps,
            "lookahead": lookahead,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "norm_scope": norm_scope,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group. Settings that it lacks are the optimizer's defaults."""
        if isinstance(param_group, dict):
            _settings.check_method({**self.defaults, **param_group})
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step: line 10 of the paper's loop (line 5 at first), then lines 7 to 9 of the next iteration."""
        loss = self.loss_before_step(closure)
        moving: list[tuple[int, dict[str, Any], Tensor]] = []
        for i, group in enumerate(self.param_groups):
            beta = float(group["beta"])
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["w"], state["w_hat"], state["z"] = p.clone(), p.clone(), None
                g = -p.grad if group["maximize"] else p.grad
                if not group["decoupled_weight_decay"]:
                    g = g + group["weight_decay"] * state["w_hat"]
                state["z"] = g.clone() if state["z"] is None else (1 - beta) * state["z"] + beta * g  # lines 5, 10
                moving.append((i, group, p))

        norms = [self._norm(i, p, moving) for i, _, p in moving]
        for (_, group, p), norm in zip(moving, norms, strict=True):
            state, alpha, beta = self.state[p], float(group["lr"]), float(group["beta"])
            denominator = max(norm ** group["norm_power"], group["eps"])
            eta = alpha * beta ** group["beta_power"] / denominator if denominator != 0 else 0.0  # line 7
            eta = eta if math.isfinite(denominator) else math.nan  # the paper knows no inf, and 0 would hide it
            w, z = state["w"], state["z"]
            if group["decoupled_weight_decay"]:
                w = (1 - alpha * group["weight_decay"]) * w
            w_next = w - eta * z  # line 8
            steps = 1 / beta if group["lookahead"] is None else 1 + group["lookahead"]
            state["w_hat"] = (1 - steps) * w + steps * w_next  # line 9
            state["w"] = w_next
            p.copy_(state["w_hat"])
        return loss

    def _norm(self, i: int, p: Tensor, moving: list[tuple[int, dict[str, Any], Tensor]]) -> float:
        scope = self.param_groups[i]["norm_scope"]
        vector = [
            q
            for j, group, q in moving
            if (scope == "tensor" and q is p)
            or (scope == "group" and j == i)
            or (scope == "global" and group["norm_scope"] == "global")
        ]
        return sum(float(torch.linalg.vector_norm(self.state[q]["z"].to(_double(q)))) ** 2 for q in vector) ** 0.5


def _double(p: Tensor) -> torch.dtype:
    return torch.complex128 if p.is_complex() else torch.float64
