"""Prox-SARAH: recursive gradient estimates, a proximal step, and an average with the starting point of the step."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor
from torch.optim.optimizer import ParamsT

from ._base import COUNT, POSITIVE, RATE, Recipe, Rule
from ._paired_gradients import Recursive

WEIGHT: Rule = (lambda x: POSITIVE[0](x) and x <= 1, "in (0, 1]")


class ProxSARAH(Recursive):
    r"""Prox-SARAH (Algorithm 1 of its paper) with constant step sizes, for F(w) + ψ(w).

    .. math::
        v_0 &= g_b(w_0), \qquad v_t = v_{t-1} + g_{\hat b}(w_t) - g_{\hat b}(w_{t-1}) \\
        \hat w_{t+1} &= \mathrm{prox}_{\eta\psi}(w_t - \eta v_t), \qquad
        w_{t+1} = (1-\gamma) w_t + \gamma \hat w_{t+1}, \qquad t = 0 \ldots m

    and again from w_{m+1}. The caller chooses the samples: b of them if `large_batch_next`, else b̂, and the same ones
    in both calls of a step's closure. The loss is that of F alone. The theorem is about a random iterate.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: η, the step size of the proximal step.
        gamma: γ in (0, 1], the weight of the average.
        inner: m. Every step whose number is a multiple of m + 1 uses a large batch.
        prox: prox(x, η) = argmin_y ψ(y) + ‖y − x‖²/(2η) for one tensor. Default: ψ = 0. It is not in state_dict().

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([4.0, 0.5]))
        >>> soft = lambda x, eta: x.sign() * (x.abs() - eta).clamp(min=0)      # ψ = ‖w‖₁
        >>> optimizer = adamplus.rivals.ProxSARAH([w], lr=0.5, gamma=1.0, prox=soft)
        >>> def closure():
        ...     loss = w.square().sum() / 2
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> w.data
        tensor([1.5000, 0.0000])

    References:
        Pham, Nguyen, Phan and Tran-Dinh, *ProxSARAH: An Efficient Algorithmic Framework for Stochastic Composite
        Nonconvex Optimization*, 2020.
    """

    rules: ClassVar[dict[str, Rule]] = {"lr": RATE, "gamma": WEIGHT, "inner": COUNT}
    shared: ClassVar[tuple[str, ...]] = ("inner",)

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.1,
        gamma: float = 0.95,
        *,
        inner: int = 10,
        prox: Callable[[Tensor, float], Tensor] | None = None,
    ) -> None:
        self.prox = prox
        super().__init__(params, {"lr": lr, "gamma": gamma, "inner": inner})

    def __getstate__(self) -> dict[str, Any]:  # torch's method drops attributes that it does not know
        return {**super().__getstate__(), "prox": self.prox}

    @staticmethod
    def recipe(L: float, inner: int, batch: int = 1, large_batch: int = 1) -> Recipe:  # noqa: N803
        """Return the constant steps of Theorem 8: γ = 1/(L√(ωm)), η = 2√(ωm)/(4√(ωm) + 1), ω = 3/(2b̂)."""
        root = math.sqrt(1.5 / batch * inner)
        settings = {"lr": 2 * root / (4 * root + 1), "gamma": min(1.0, 1 / (L * root)), "inner": inner}
        return Recipe(settings, (large_batch, batch))

    @property
    def large_batch_next(self) -> bool:
        """Whether the next step is a restart, for which the closure should average b samples."""
        return self.steps % (self._common("inner") + 1) == 0

    def _take(self) -> None:
        for group, p in self._moving():
            lr, gamma = group["lr"], group["gamma"]
            moved = p - lr * self.state[p]["v"]
            moved = moved if self.prox is None else self.prox(moved, lr)
            p.mul_(1 - gamma).add_(moved, alpha=gamma)
