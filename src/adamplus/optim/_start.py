"""Where to start: the paper's settings, and lr from a rate of SGD."""

from typing import Final, TypedDict


class PaperSettings(TypedDict):
    """Settings of Algorithm 1 in the paper."""

    lr: float
    beta: float
    beta_power: float
    norm_power: float
    eps: float


PAPER: Final[PaperSettings] = {"lr": 0.1, "beta": 0.1, "beta_power": 1.0, "norm_power": 0.5, "eps": 1e-8}
"""The paper's settings for images: `AdamPlus(params, **PAPER)`. They are `AdamPlusReference`'s defaults."""


def lr_from_sgd(
    rate: float, norm: float, beta: float = 0.1, *, beta_power: float = 1.0, norm_power: float = 0.5
) -> float:
    r"""The lr (α) with which the first step of w is one of SGD at a given rate.

    .. math::
        \alpha = \text{rate} \cdot \|g_0\|^p / \beta^a \quad\text{so that}\quad \eta_0 = \text{rate}

    Later steps differ: η grows as ‖z‖ falls.

    Args:
        rate: η of the first step: a rate at which SGD without momentum trains the model, or lr / (1 − momentum).
        norm: ‖g_0‖, the norm of the gradient of all parameters at the first batch, after clipping if you clip.
        beta: β, as it is passed to the optimizer.
        beta_power: a, the power of β in the step size.
        norm_power: p, the power of ‖z‖ that divides the step.

    Example:
        >>> model = torch.nn.Linear(3, 1)
        >>> x, y = torch.randn(64, 3), torch.randn(64, 1)
        >>> torch.nn.functional.mse_loss(model(x), y).backward()
        >>> norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()
        >>> lr = adamplus.lr_from_sgd(0.3, norm, beta=0.1)
        >>> optimizer = adamplus.AdamPlus(model.parameters(), lr=lr, beta=0.1)
        >>> optimizer.step()
        >>> round(optimizer.stats().eta, 6)
        0.3
    """
    for name, value in (("rate", rate), ("norm", norm)):
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} must be finite and above 0, got {value}")
    return rate * norm**norm_power / beta**beta_power
