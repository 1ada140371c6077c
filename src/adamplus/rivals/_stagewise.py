"""Stagewise AdaGrad: AdaGrad on regularised stages, each from the average of the last one's iterates."""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from ._base import COUNT, POSITIVE, RATE, SCOPE, NormScope, Rival, Rule, spread


class StagewiseAdaGrad(Rival):
    r"""Stagewise AdaGrad: the framework of its paper (Algorithm 1) around its AdaGrad.

    Stage s minimises F(x) + ‖x − x_{s−1}‖²/(2γ) from x_{s−1}, with g_t its gradient at x_t, η_s = α/√s and

    .. math::
        H_t = G + \Big(\sum_{i\le t} g_i^2\Big)^{1/2}, \qquad x_{t+1} = x_{s-1} - \eta_s H_t^{-1} \sum_{i\le t} g_i

    until T ≥ M_s max((G + max_i‖g_{1:T,i}‖)/2, Σ_i‖g_{1:T,i}‖), where M_s = 24γ/η_s; x_s is the mean of x_1 … x_T.
    The constants of that rule are recalled, and agree with the 12γ/η_s steps of the paper's stagewise SGD. As the sum
    over coordinates makes stages of large models endless, `stage_steps` sets their lengths instead. The theorem is of
    an x_s that is drawn with probabilities that grow with s.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: α.
        gamma: γ; 1/(2L) for an L-smooth F, or anything below 1/L.
        bound: G, the largest coordinate that a gradient has.
        stage_steps: T_s = stage_steps · s; by itself, the rule above.
        norm_scope: the rule's max and sum over everything ("global"), or for each row of the parameters, as a run
            of its own whose stages end by themselves ("row").

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
        """Whether the stage is over; of each row, where rows are runs."""
        group = moving[0][0]
        stage, steps = torch.as_tensor(group["stage"]), torch.as_tensor(group["stage_step"])
        if group["stage_steps"] is not None:
            return steps >= group["stage_steps"] * stage
        lengths = [self.state[p]["squares"].sqrt() for _, p in moving]
        longest, total = group["bound"] + self._largest(lengths), self._total(lengths)
        multiple = 24 * group["gamma"] / (group["lr"] / stage.to(total).sqrt())
        return steps.to(total) >= multiple * torch.maximum(longest.to(total) / 2, total)

    def _restart(self, p: Tensor, ended: Tensor) -> None:
        """From the mean, where a stage has ended."""
        state = self.state[p]
        p.copy_(torch.where(ended, state["mean"], p))
        state["anchor"] = torch.where(ended, p, state["anchor"])
        for name in ("gradients", "squares", "mean"):
            state[name] = torch.where(ended, 0.0, state[name])
