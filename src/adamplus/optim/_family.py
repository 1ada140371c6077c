"""Nadam⁺ and NIGT, which differ from Adam⁺ in two exponents."""

from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.optim.optimizer import ParamsT

from ._adam_plus import AdamPlus
from ._foreign import refuse_unknown
from ._settings import NormScope


class Options(TypedDict, total=False):
    """Keywords that every member of the family takes as `AdamPlus` does."""

    eps: float
    lookahead: float | None
    weight_decay: float
    decoupled_weight_decay: bool
    maximize: bool
    foreach: bool | None
    fused: bool | None
    capturable: bool
    differentiable: bool
    norm_scope: NormScope
    process_group: ProcessGroup | None
    state_dtype: torch.dtype | None
    stochastic_rounding: bool
    skip_nonfinite: bool


class NAdamPlus(AdamPlus):
    r"""Nadam⁺, power-normalized Adam⁺ (Theorem 3): p = 2/3 and a = 4/3.

    .. math::
        \eta_t = \alpha\beta^{4/3} / \max(\|z_t\|^{2/3}, \epsilon_0)

    Args:
        params: parameters or parameter groups, as in `AdamPlus`.
        lr: α. It is larger than that of Adam⁺, because the power of β is.
        beta: β in (0, 1], the weight of the new gradient.
        beta_power: a, the power of β in the step size.
        norm_power: p in [0, 1], the power of ‖z‖ that divides the step.
        **options: every other keyword of `AdamPlus`.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([8.0, 0.0]))
        >>> optimizer = adamplus.NAdamPlus([w], lr=0.1, beta=0.125)
        >>> w.grad = torch.tensor([8.0, 0.0])
        >>> optimizer.step()
        >>> round(optimizer.stats().eta, 9)       # 0.1 · (1/8)^(4/3) / 8^(2/3)
        0.0015625

    References:
        Liu, Zhang, Orabona and Yang, *Adam⁺: A Stochastic Method with Adaptive Variance Reduction*, 2020.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 3.0,
        beta: float | Tensor = 0.1,
        *,
        beta_power: float = 4 / 3,
        norm_power: float = 2 / 3,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(params, lr, beta, beta_power=beta_power, norm_power=norm_power, **options)


class NIGT(AdamPlus):
    r"""NIGT, normalized SGD with momentum and implicit gradient transport. Every step has the length lr.

    .. math::
        \eta_t = \alpha / \max(\|z_t\|, \epsilon_0), \qquad \beta = 1 - \text{momentum}

    Args:
        params: parameters or parameter groups. A group may give `momentum`, which is stored as `beta` = 1 − momentum.
        lr: α, the length of a step of w.
        momentum: 1 − β, in [0, 1).
        **options: every other keyword of `AdamPlus` except the two powers.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([4.0, 0.0]))
        >>> optimizer = adamplus.NIGT([w], lr=0.5, momentum=0.9)
        >>> w.grad = torch.tensor([4.0, 0.0])
        >>> optimizer.step()
        >>> _ = optimizer.eval()
        >>> w.data                                # a step of 0.5, whatever the gradient's length
        tensor([3.5000, 0.0000])

    References:
        Cutkosky and Mehta, *Momentum Improves Normalized SGD*, 2020.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.1,
        momentum: float | Tensor = 0.9,
        **options: Unpack[Options],
    ) -> None:
        if not options.keys().isdisjoint(("beta_power", "norm_power")):
            raise TypeError("NIGT has beta_power=0 and norm_power=1: AdamPlus takes other powers")
        if "beta" in options:
            raise TypeError("NIGT takes momentum, which is 1 − beta")
        if "betas" in options:
            raise TypeError("NIGT has no betas: it has one moving average. Pass momentum = betas[0]")
        refuse_unknown(type(self).__name__, options, ["lr", "momentum", *Options.__annotations__])
        super().__init__(params, lr, _beta(momentum), beta_power=0.0, norm_power=1.0, **options)

    def _check(self, settings: dict[str, Any]) -> None:
        super()._check(settings)
        for name, own in (("beta_power", 0.0), ("norm_power", 1.0)):
            if settings[name] != own:
                raise ValueError(f"NIGT has {name}={own:g}, got {settings[name]!r}: AdamPlus takes other powers")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group. Its `momentum` is stored as `beta` = 1 − momentum."""
        if isinstance(param_group, dict) and "momentum" in param_group:
            if "beta" in param_group:
                raise ValueError("a group of NIGT has momentum or beta = 1 − momentum, not both")
            param_group = {**param_group, "beta": _beta(param_group["momentum"])}
            del param_group["momentum"]
        super().add_param_group(param_group)


def _beta(momentum: float | Tensor) -> float | Tensor:
    if isinstance(momentum, bool) or not isinstance(momentum, int | float | Tensor):
        raise TypeError(f"momentum must be a number or a 0-dim tensor, got {momentum!r}")
    if not isinstance(momentum, Tensor) and not 0 <= momentum < 1:
        raise ValueError(f"momentum must be in [0, 1), got {momentum}: it is 1 − beta")
    return 1 - momentum
