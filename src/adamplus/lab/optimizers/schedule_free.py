"""Schedule-free optimizers, if the package schedulefree is installed."""

from typing import Any

from torch.optim import Optimizer

from .contender import UnavailableError


def _build(name: str, params: Any, **settings: Any) -> Optimizer:
    try:
        import schedulefree
    except ImportError:
        raise UnavailableError("schedulefree is not installed: pip install schedulefree") from None
    return getattr(schedulefree, name)(params, **settings)


def schedule_free_sgd(
    params: Any, lr: float = 1.0, momentum: float = 0.9, weight_decay: float = 0.0, warmup_steps: int = 0
) -> Optimizer:
    """Build schedule-free SGD."""
    settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "warmup_steps": warmup_steps}
    return _build("SGDScheduleFree", params, **settings)


def schedule_free_adamw(
    params: Any, lr: float = 0.0025, beta1: float = 0.9, weight_decay: float = 0.0, warmup_steps: int = 0
) -> Optimizer:
    """Build schedule-free AdamW."""
    settings = {"lr": lr, "betas": (beta1, 0.999), "weight_decay": weight_decay, "warmup_steps": warmup_steps}
    return _build("AdamWScheduleFree", params, **settings)
