"""SGD with the stopping rule of its sharp analysis: constant steps, restarts outside a ball, and a final average."""

import math
from typing import Any, ClassVar

import torch
from torch.optim.optimizer import ParamsT

from ._base import COUNT, POSITIVE, RATE, SCOPE, NormScope, Recipe, Rival, Rule, spread


class EscapingSGD(Rival):
    r"""SGD with the stopping rule of Fang, Lin and Zhang (their Algorithm 1): the SGD of the paper's Table 1.

    .. math::
        x^{k+1} = x^k - \eta g(x^k), \qquad \text{and if } \|x^{k+1} - x^0\| > B:\ x^0 \leftarrow x^{k+1},\ k
        \leftarrow 0

    until k = K₀. The method then sets the parameters to its result, the mean of x⁰ … x^{K₀−1}, and does not move them
    again. With a Lipschitz Hessian, η of the order ε^1.5, B of the order ε^0.5 and K₀ of the order ε^−2 give ε^−3.5
    evaluations in all.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: η, the learning rate.
        radius: B, the radius of the ball.
        ball_steps: K₀, the number of steps within a ball after which the method ends.
        norm_scope: "global": one distance over all parameters. "row": one distance per row of the parameters, where
            each row is a separate run with its own end.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = adamplus.rivals.EscapingSGD([w], lr=0.1, radius=1.0, ball_steps=2)
        >>> w.grad = torch.tensor([2.0])
        >>> for _ in range(2):
        ...     optimizer.step()
        >>> w.data, bool(optimizer.finished)      # the mean of 1 and 0.8
        (tensor([0.9000]), True)

    References:
        Fang, Lin and Zhang, *Sharp Analysis for Nonconvex SGD Escaping from Saddle Points*, 2019.
    """

    rules: ClassVar[dict[str, Rule]] = {"lr": RATE, "radius": POSITIVE, "ball_steps": COUNT, "norm_scope": SCOPE}
    shared: ClassVar[tuple[str, ...]] = ("norm_scope", "radius", "ball_steps")
    progress: ClassVar[dict[str, Any]] = {"ball_step": 0, "finished": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.01,
        *,
        radius: float = 1.0,
        ball_steps: int = 1000,
        norm_scope: NormScope = "global",
    ) -> None:
        super().__init__(params, {"lr": lr, "radius": radius, "ball_steps": ball_steps, "norm_scope": norm_scope})

    @staticmethod
    def recipe(epsilon: float, L_H: float, sigma: float, lr_constant: float = 1.0) -> Recipe:  # noqa: N803
        """Return the paper's settings, up to the constants and logarithms of its Õ(·).

        B = (ε/L_H)^(1/2), η = lr_constant · ε^1.5/(σ² L_H^(1/2)), K₀ = 1/(η (L_H ε)^(1/2)). The analysis also
        assumes that η is below 1/L.
        """
        lr = lr_constant * epsilon**1.5 / (sigma**2 * L_H**0.5)
        steps = max(1, math.ceil(1 / (lr * (L_H * epsilon) ** 0.5)))
        return Recipe({"lr": lr, "radius": (epsilon / L_H) ** 0.5, "ball_steps": steps}, (1,))

    @property
    def finished(self) -> torch.Tensor:
        """Whether the method has ended: one value, or one per row if norm_scope is "row"."""
        return torch.as_tensor(self._common("finished"))

    def _take(self) -> None:
        moving = self._moving()
        if not moving:
            return
        device = moving[0][1].device
        finished, k = self.finished.to(device), torch.as_tensor(self._common("ball_step"), device=device)
        for group, p in moving:
            state = self.state[p]
            if not state:
                state["anchor"], state["mean"] = p.clone(), torch.zeros_like(p)
            state["mean"] += torch.where(spread(finished, p), 0.0, (p - state["mean"]) / (spread(k, p) + 1))
            p.sub_(torch.where(spread(finished, p), 0.0, group["lr"] * p.grad))
        left = ~finished & (self._norm(p - self.state[p]["anchor"] for _, p in moving) > self._common("radius"))
        k = torch.where(left, 0, k + 1)
        ending = ~finished & (k >= self._common("ball_steps"))
        for _, p in moving:
            state, out = self.state[p], spread(left, p)
            state["anchor"] = torch.where(out, p, state["anchor"])
            state["mean"] = torch.where(out, 0.0, state["mean"])
            p.copy_(torch.where(spread(ending, p), state["mean"], p))
        for group in self.param_groups:
            group["ball_step"], group["finished"] = k, finished | ending
