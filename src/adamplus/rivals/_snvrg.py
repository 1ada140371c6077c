"""SNVRG: nested reference points, where inner ones are renewed more often and with smaller batches."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from ._base import RATE, Recipe, Rule, is_count
from ._paired_gradients import Gradients, PairedGradients

LOOPS: Rule = (
    lambda x: isinstance(x, tuple) and len(x) > 0 and all(is_count(loop) for loop in x),
    "whole numbers of at least 1, one for each level",
)


class SNVRG(PairedGradients):
    r"""SNVRG with K levels: One-epoch-SNVRG (Algorithm 1 of its paper), repeated from the last iterate.

    At step t of an epoch of T = T₁⋯T_K, r is the least level j with t mod T_{j+1}⋯T_K = 0, and

    .. math::
        g^{(0)} &= g_B(x_t), \quad g^{(l)} = 0 \text{ for } l > 0, && \text{if } r = 0 \\
        g^{(r)} &= g_{B_r}(x_t) - g_{B_r}(x^{(r-1)}), \quad g^{(l)} = 0 \text{ for } l > r, && \text{otherwise} \\
        x^{(l)} &= x_t \text{ for } l \ge r, \qquad x_{t+1} = x_t - \alpha \textstyle\sum_l g^{(l)}

    The caller chooses the samples: as many as the level `level_next` needs, and the same ones in both calls of a step's
    closure. Level 0 is the large batch. The theorem is about a random iterate.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: α, the learning rate, which is 1/(10M) with M = 6L in the paper.
        loops: T₁ … T_K, the lengths of the nested loops.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = adamplus.rivals.SNVRG([w], lr=0.1, loops=(2, 2))
        >>> def closure():
        ...     loss = w.square().sum() / 2
        ...     loss.backward()
        ...     return loss
        >>> levels = []
        >>> for _ in range(5):
        ...     levels.append(optimizer.level_next)
        ...     loss = optimizer.step(closure)
        >>> levels
        [0, 2, 1, 2, 0]

    References:
        Zhou, Xu and Gu, *Stochastic Nested Variance Reduction for Nonconvex Optimization*, 2018.
    """

    rules: ClassVar[dict[str, Rule]] = {"lr": RATE, "loops": LOOPS}
    shared: ClassVar[tuple[str, ...]] = ("loops",)

    def __init__(self, params: ParamsT, lr: float = 0.01, *, loops: Sequence[int] = (2, 2, 4)) -> None:
        super().__init__(params, {"lr": lr, "loops": tuple(loops)})

    @staticmethod
    def recipe(L: float, levels: int) -> Recipe:  # noqa: N803
        """Return T₁ = 2, T_l = 2^(2^(l−2)), B_l = 6^(K−l+1) (T_l⋯T_K)², B = 2^(2^K), α = 1/(60L), as the paper does.

        The formulas are quoted from memory. B should be of the order σ²/ε²; the paper has K = log log B.
        """
        loops = tuple(2 if level == 1 else 2**2 ** (level - 2) for level in range(1, levels + 1))
        batches = [2**2**levels]
        batches += [6 ** (levels - level) * math.prod(loops[level:]) ** 2 for level in range(levels)]
        return Recipe({"lr": 1 / (60 * L), "loops": loops}, tuple(batches))

    @property
    def level_next(self) -> int:
        """Level r of the next step: 0 for the large batch B, l for B_l."""
        loops = self._common("loops")
        t = self.steps % math.prod(loops)
        return next(level for level in range(len(loops) + 1) if t % math.prod(loops[level:]) == 0)

    @property
    def large_batch_next(self) -> bool:
        """Whether the next step starts an epoch, for which the closure should average B samples."""
        return self.level_next == 0

    def _other_points(self, moving: list[Tensor]) -> dict[Tensor, Tensor]:
        return {p: self.state[p]["points"][self.level_next - 1] for p in moving if self.state[p]}

    def _estimate(self, here: Gradients, there: Gradients) -> None:
        count = len(self._common("loops"))
        for _, p in self._moving():
            state: dict[str, Any] = self.state[p]
            level = self.level_next if p in there else 0
            if not state:
                state["points"] = [p.clone() for _ in range(count)]  # x^(K) is x itself
                state["gradients"] = [torch.zeros_like(p) for _ in range(count + 1)]
            state["gradients"][level] = here[p] - there[p] if level else here[p].clone()
            for inner in state["gradients"][level + 1 :]:
                inner.zero_()
            for point in state["points"][level:]:
                point.copy_(p)

    def _take(self) -> None:
        for group, p in self._moving():
            p.sub_(group["lr"] * torch.stack(self.state[p]["gradients"]).sum(0))
