"""Stagewise AdaGrad: AdaGrad on regularised stages, each from the average of the previous stage's iterates."""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from ._base import COUNT, POSITIVE, RATE, SCOPE, NormScope, Rival, Rule, spread


class StagewiseAdaGrad(Rival):
    r"""Stagewise AdaGrad: the stagewise framework of its paper (Algorithm 1) with AdaGrad.

    Stage s minimises F(x) + ‖x − x_{s−1}‖²/(2γ) from x_{s−1}, with g_t its gradient at x_t, η_s = α/√s and

    .. math::
        H_t = G + \Big(\sum_{i\le t} g_i^2\Big)^{1/2}, \qquad x_{t+1} = x_{s-1} - \eta_s H_t^{-1} \sum_{i\le t} g_i

    until T ≥ M_s max((G + max_i‖g_{1:T,i}‖)/2, Σ_i‖g_{1:T,i}‖), where M_s = 24γ/η_s. Then x_s is the mean of x_1 … x_T.
    The constants of this rule are quoted from memory, and agree with the 12γ/η_s steps of the paper's stagewise SGD.
    The sum over coordinates makes the stages of large models endless, so `stage_steps` can set their lengths instead.
    The theorem is about an x_s drawn with probabilities that grow with s.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: α, the learning rate of the first stage.
        gamma: γ. Use 1/(2L), or any value below 1/L, for an L-smooth F.
        bound: G, the largest coordinate of a gradient.
        stage_steps: sets the length of stage s to T_s = stage_steps · s. Default: the rule above.
        norm_scope: "global": max and sum of the rule over all parameters. "row": one rule per row of the parameters,
            where each row is a separate run with its own stages.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = adamplus.rivals.StagewiseAdaGrad([w], lr=0.5, gamma=1.0, stage_steps=2)
        >>> w.grad = torch.tensor([1.0])
        >>> optimizer.step()
        >>> w.data                                # 1 − 0.5 · 1 / (1 + 1)
        tensor([0.7500])
        >>> optimizer.step()
        >>> w.data                                # the stage is over: the mean of 1 and 0.75
        tensor([0.8750])

    References:
        Chen, Yuan, Yi, Zhou, Chen and Yang, *Universal Stagewise Learning for Non-Convex Problems with Convergence on
        Averaged Solutions*, 2019.
    """

    rules: ClassVar[dict[str, Rule]] = {
        "lr": RATE,
        "gamma": POSITIVE,
        "bound": POSITIVE,
        "norm_scope": SCOPE,
        "stage_steps": (lambda x: x is None or COUNT[0](x), f"None or {COUNT[1]}"),
    }
    shared: ClassVar[tuple[str, ...]] = ("norm_scope", "stage_steps")
    progress: ClassVar[dict[str, Any]] = {"stage": 1, "stage_step": 0}

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.1,
        *,
        gamma: float = 1.0,
        bound: float = 1.0,
        stage_steps: int | None = None,
        norm_scope: NormScope = "global",
    ) -> None:
        defaults = {"lr": lr, "gamma": gamma, "bound": bound, "stage_steps": stage_steps, "norm_scope": norm_scope}
        super().__init__(params, defaults)

    def _take(self) -> None:
        moving = self._moving()
        if not moving:
            return
        for group, p in moving:
            self._advance(group, p)
        for group in self.param_groups:
            group["stage_step"] = group["stage_step"] + 1
        ended = self._ended(moving)
        for _, p in moving:
            self._restart(p, spread(ended, p))
        for group in self.param_groups:
            group["stage"] = group["stage"] + ended.to(torch.int64)
            group["stage_step"] = torch.where(ended, 0, group["stage_step"])

    def _advance(self, group: dict[str, Any], p: Tensor) -> None:
        state = self.state[p]
        if not state:
            state["anchor"] = p.clone()
            state["gradients"], state["squares"], state["mean"] = (torch.zeros_like(p) for _ in range(3))
        t, stage = (spread(torch.as_tensor(group[name]), p) for name in ("stage_step", "stage"))
        g = p.grad + (p - state["anchor"]) / group["gamma"]
        state["gradients"] += g
        state["squares"] += g**2
        state["mean"] += (p - state["mean"]) / (t + 1)
        p.copy_(
            state["anchor"]
            - group["lr"] / stage.sqrt() * state["gradients"] / (group["bound"] + state["squares"].sqrt())
        )

    def _ended(self, moving: list[tuple[dict[str, Any], Tensor]]) -> Tensor:
        """Whether the stage is over: one value, or one per row if norm_scope is "row"."""
        group = moving[0][0]
        stage, steps = torch.as_tensor(group["stage"]), torch.as_tensor(group["stage_step"])
        if group["stage_steps"] is not None:
            return steps >= group["stage_steps"] * stage
        lengths = [self.state[p]["squares"].sqrt() for _, p in moving]
        longest, total = group["bound"] + self._largest(lengths), self._total(lengths)
        multiple = 24 * group["gamma"] / (group["lr"] / stage.to(total).sqrt())
        return steps.to(total) >= multiple * torch.maximum(longest.to(total) / 2, total)

    def _restart(self, p: Tensor, ended: Tensor) -> None:
        """Begin a new stage from the mean, in the runs whose stage has ended."""
        state = self.state[p]
        p.copy_(torch.where(ended, state["mean"], p))
        state["anchor"] = torch.where(ended, p, state["anchor"])
        for name in ("gradients", "squares", "mean"):
            state[name] = torch.where(ended, 0.0, state[name])
