"""SPIDER: normalised steps with an estimate that sums gradient differences and restarts with a large batch."""

import math
from typing import ClassVar

from torch.optim.optimizer import ParamsT

from ._base import COUNT, POSITIVE, RATE, SCOPE, NormScope, Recipe, Rule, spread
from ._paired_gradients import Recursive


class SPIDER(Recursive):
    r"""SPIDER-SFO (Algorithm 1 of its paper, option II).

    .. math::
        v_k &= g_{S_1}(x_k) \text{ if } k \bmod q = 0, \text{ else } g_{S_2}(x_k) - g_{S_2}(x_{k-1}) + v_{k-1} \\
        x_{k+1} &= x_k - \min\left(\frac{\epsilon}{Ln_0\|v_k\|}, \frac{1}{2Ln_0}\right) v_k

    The caller chooses the samples: S₁ of them if `large_batch_next`, else S₂, and the same ones in both calls of a
    step's closure. The theorem is about a random iterate.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: 1/(2Ln₀), the largest step size.
        length: ε/(Ln₀), the largest length of a step.
        period: q, the number of steps from one large batch to the next.
        norm_scope: "global": ‖v‖ over all parameters. "row": one ‖v‖ per row, where each row is a separate run.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([4.0, 0.0]))
        >>> optimizer = adamplus.rivals.SPIDER([w], lr=0.5, length=0.1, period=10)
        >>> optimizer.large_batch_next
        True
        >>> def closure():
        ...     loss = w.square().sum() / 2
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> w.data                                # 0.1 down: 0.5 · 4 would be longer
        tensor([3.9000, 0.0000])

    References:
        Fang, Li, Lin and Zhang, *SPIDER: Near-Optimal Non-Convex Optimization via Stochastic Path-Integrated
        Differential Estimator*, 2018.
    """

    rules: ClassVar[dict[str, Rule]] = {"lr": RATE, "length": POSITIVE, "period": COUNT, "norm_scope": SCOPE}
    shared: ClassVar[tuple[str, ...]] = ("norm_scope", "period")

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.1,
        length: float = 0.01,
        *,
        period: int = 10,
        norm_scope: NormScope = "global",
    ) -> None:
        super().__init__(params, {"lr": lr, "length": length, "period": period, "norm_scope": norm_scope})

    @staticmethod
    def recipe(epsilon: float, L: float, sigma: float, n_0: float = 1.0) -> Recipe:  # noqa: N803
        """Return the settings of Theorem 1: S₁ = 2σ²/ε², S₂ = 2σ/(εn₀), q = σn₀/ε, n₀ from 1 to 2σ/ε."""
        settings = {
            "lr": 1 / (2 * L * n_0),
            "length": epsilon / (L * n_0),
            "period": max(1, math.ceil(sigma * n_0 / epsilon)),
        }
        return Recipe(settings, (_samples(2 * sigma**2 / epsilon**2), _samples(2 * sigma / (epsilon * n_0))))

    @property
    def large_batch_next(self) -> bool:
        """Whether the next step is a restart, for which the closure should average S₁ samples."""
        return self.steps % self._common("period") == 0

    def _take(self) -> None:
        moving = self._moving()
        if not moving:
            return
        norm = self._norm(self.state[p]["v"] for _, p in moving)
        for group, p in moving:
            # length/‖v‖ is infinite if v is 0, and lr is then the smaller
            p.sub_(spread((group["length"] / norm).clamp(max=group["lr"]), p) * self.state[p]["v"])


def _samples(number: float) -> int:
    return max(1, math.ceil(number * (1 - 1e-12)))
