"""STORM: momentum with a correction by a second gradient, adaptive steps and no large batches."""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from ._base import POSITIVE, RATE, SCOPE, NormScope, Recipe, Rule, spread
from ._paired_gradients import Gradients, Recursive


class STORM(Recursive):
    r"""STORM (Algorithm 1 of its paper).

    .. math::
        \eta_t &= k / (w + \textstyle\sum_{i\le t} G_i^2)^{1/3}, \qquad G_i = \|g(x_i;\xi_i)\| \\
        x_{t+1} &= x_t - \eta_t d_t, \qquad a_{t+1} = c\eta_t^2 \\
        d_{t+1} &= g(x_{t+1};\xi_{t+1}) + (1-a_{t+1})(d_t - g(x_t;\xi_{t+1}))

    `a` is at most 1 here, as in its authors' code; with the w of the theorem it always is. G is the norm over
    everything and d is not clipped, as in the paper and unlike in that code.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: k, the scale of the learning rate.
        w: initial value of Σ G². The paper's experiments use 0.1 for w and k.
        c: factor of a: the larger it is, the faster d forgets.
        norm_scope: "global": G over all parameters. "row": one G per row, where each row is a separate run.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([2.0, 0.0]))
        >>> optimizer = adamplus.rivals.STORM([w], lr=1.0, w=4.0)
        >>> def closure():
        ...     loss = w.square().sum() / 2
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> w.data                                # 2 − 2 / (4 + 4)^(1/3)
        tensor([1., 0.])

    References:
        Cutkosky and Orabona, *Momentum-Based Variance Reduction in Non-Convex SGD*, 2019.
    """

    rules: ClassVar[dict[str, Rule]] = {"lr": RATE, "w": POSITIVE, "c": RATE, "norm_scope": SCOPE}
    shared: ClassVar[tuple[str, ...]] = ("norm_scope",)
    progress: ClassVar[dict[str, Any]] = {"gradient_sum": 0.0, "a": 0.0}

    def __init__(
        self, params: ParamsT, lr: float = 0.1, w: float = 0.1, c: float = 10.0, *, norm_scope: NormScope = "global"
    ) -> None:
        super().__init__(params, {"lr": lr, "w": w, "c": c, "norm_scope": norm_scope})

    @staticmethod
    def recipe(L: float, G: float, b: float = 1.0) -> Recipe:  # noqa: N803
        """Return the settings of Theorem 1, where G bounds every sample's gradient and b is any positive number."""
        k = b * G ** (2 / 3) / L
        c = 28 * L**2 + G**2 / (7 * L * k**3)
        w = max((4 * L * k) ** 3, 2 * G**2, (c * k / (4 * L)) ** 3)
        return Recipe({"lr": k, "w": w, "c": c}, (1,))

    def _estimate(self, here: Gradients, there: Gradients) -> None:
        super()._estimate(here, there)
        if here:
            squares = self._norm(here.values()).square()
            for group in self.param_groups:
                group["gradient_sum"] = group["gradient_sum"] + squares

    def _keep(self, group: dict[str, Any], p: Tensor) -> Tensor:
        return spread(1 - torch.as_tensor(group["a"]), p)

    def _take(self) -> None:
        for group in self.param_groups:
            total = torch.as_tensor(group["w"] + group["gradient_sum"])
            eta = group["lr"] / total ** (1 / 3)
            group["a"] = (group["c"] * eta**2).clamp(max=1)
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(spread(eta, p) * self.state[p]["v"])
