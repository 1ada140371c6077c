"""Adam-type methods with convergence proofs: generalized Adam (AMSGrad, AdaFom) and PAdam."""

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from ._base import POSITIVE, RATE, Rival, Rule

BETAS: Rule = (
    lambda x: isinstance(x, tuple) and len(x) == 2 and all(RATE[0](beta) and beta < 1 for beta in x),
    "two numbers in [0, 1)",
)
POWER: Rule = (lambda x: POSITIVE[0](x) and x <= 0.5, "in (0, 1/2]: 1/2 is AMSGrad, and near 0 SGD with momentum")
MOMENTS = ("amsgrad", "adafom")


class GeneralizedAdam(Rival):
    r"""Generalized Adam (Algorithm 1 of its paper), in the two forms with a proof of convergence.

    .. math::
        m_t &= \beta_1 m_{t-1} + (1-\beta_1) g_t, \qquad x_{t+1} = x_t - \frac{\alpha}{\sqrt t}
        \frac{m_t}{\sqrt{\hat v_t} + \epsilon} \\
        \hat v_t &= \max(\hat v_{t-1}, v_t), \quad v_t = \beta_2 v_{t-1} + (1-\beta_2) g_t^2
        && \text{(AMSGrad)} \\
        \hat v_t &= \textstyle\frac1t \sum_{i\le t} g_i^2 && \text{(AdaFom)}

    There is no bias correction, as in the paper and unlike in torch.optim.Adam(amsgrad=True). α/√t is the step size of
    the paper's corollaries. The paper has no ε: it assumes that no coordinate of the first gradient is 0.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: α, the learning rate.
        betas: β₁ and β₂. AdaFom does not use β₂.
        second_moment: form of v̂, "amsgrad" or "adafom".
        decay: divide α by √t. Pass False if a scheduler sets the learning rate.
        eps: ε, added to the denominator.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = adamplus.rivals.GeneralizedAdam([w], lr=0.1, betas=(0.0, 0.9), second_moment="adafom")
        >>> w.grad = torch.tensor([0.5, -4.0])
        >>> optimizer.step()
        >>> w.data                                # the first step is lr long in every coordinate
        tensor([ 0.9000, -1.9000])

    References:
        Chen, Liu, Sun and Hong, *On the Convergence of a Class of Adam-type Algorithms for Non-Convex Optimization*,
        2018.
    """

    rules: ClassVar[dict[str, Rule]] = {
        "lr": RATE,
        "betas": BETAS,
        "eps": POSITIVE,
        "second_moment": (lambda x: x in MOMENTS, "'amsgrad' or 'adafom'"),
        "decay": (lambda x: isinstance(x, bool), "True or False"),
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        *,
        second_moment: Literal["amsgrad", "adafom"] = "amsgrad",
        decay: bool = True,
        eps: float = 1e-8,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "second_moment": second_moment, "decay": decay, "eps": eps}
        super().__init__(params, defaults)

    def _take(self) -> None:
        for group, p in self._moving():
            state = self.state[p]
            state["t"] = t = state.get("t", 0) + 1
            first = _first_moment(state, p, group["betas"][0])
            if group["second_moment"] == "amsgrad":
                second = _largest_second_moment(state, p, group["betas"][1])
            else:
                state["squares"] = state.get("squares", 0.0) + _gradient(p) ** 2
                second = state["squares"] / t
            rate = group["lr"] / t**0.5 if group["decay"] else group["lr"]
            p.addcdiv_(first, second.sqrt() + group["eps"], value=-rate)


class PAdam(Rival):
    r"""PAdam: AMSGrad with a power p of the second moment, between SGD with momentum and Adam.

    .. math::
        m_t = \beta_1 m_{t-1} + (1-\beta_1) g_t, \quad v_t = \beta_2 v_{t-1} + (1-\beta_2) g_t^2, \quad
        \hat v_t = \max(\hat v_{t-1}, v_t), \quad x_{t+1} = x_t - \alpha \frac{m_t}{(\sqrt{\hat v_t} + \epsilon)^{2p}}

    There is no bias correction, as in the paper's Algorithm 1 and unlike in its authors' code. ε is that of the code.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: α, the learning rate.
        betas: β₁ and β₂.
        power: p in (0, 1/2]. The paper's experiments use 1/8.
        eps: ε, added to the denominator.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = adamplus.rivals.PAdam([w], lr=0.1, betas=(0.0, 0.0), power=0.25)
        >>> w.grad = torch.tensor([4.0])
        >>> optimizer.step()
        >>> w.data                                # 1 − 0.1 · 4 / 16^(1/4)
        tensor([0.8000])

    References:
        Chen, Zhou, Tang, Yang, Cao and Gu, *Closing the Generalization Gap of Adaptive Gradient Methods in Training
        Deep Neural Networks*, 2018.
    """

    rules: ClassVar[dict[str, Rule]] = {"lr": RATE, "betas": BETAS, "power": POWER, "eps": POSITIVE}

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.999),
        *,
        power: float = 1 / 8,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "power": power, "eps": eps})

    def _take(self) -> None:
        for group, p in self._moving():
            state = self.state[p]
            first = _first_moment(state, p, group["betas"][0])
            second = _largest_second_moment(state, p, group["betas"][1])
            p.addcdiv_(first, (second.sqrt() + group["eps"]) ** (2 * group["power"]), value=-group["lr"])


def _first_moment(state: dict[str, Any], p: Tensor, beta: float) -> Tensor:
    state["m"] = beta * state.get("m", 0.0) + (1 - beta) * _gradient(p)
    return state["m"]


def _largest_second_moment(state: dict[str, Any], p: Tensor, beta: float) -> Tensor:
    state["v"] = beta * state.get("v", 0.0) + (1 - beta) * _gradient(p) ** 2
    state["largest"] = torch.maximum(state.get("largest", torch.zeros_like(p)), state["v"])
    return state["largest"]


def _gradient(p: Tensor) -> Tensor:
    assert p.grad is not None  # the caller loops over parameters that have a gradient
    return p.grad
