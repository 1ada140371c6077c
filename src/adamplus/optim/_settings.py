"""Which settings a group may have, and what to say of those that it may not."""

import math
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

NormScope: TypeAlias = Literal["global", "group", "tensor"]
SCOPES = ("global", "group", "tensor")


def check(settings: dict[str, Any]) -> None:
    """Raise what is wrong with a group's settings, naming the value and the way out."""
    names = ("lr", "beta", "norm_power", "beta_power", "eps", "weight_decay")
    lr, beta, norm_power, beta_power, eps, weight_decay = (_number(name, settings[name]) for name in names)
    if not 0 <= lr < math.inf:
        raise ValueError(f"lr must be finite and at least 0, got {lr}: to ascend, pass maximize=True")
    if not 0 < beta <= 1:
        raise ValueError(f"beta must be in (0, 1], got {beta}: it is the weight of the new gradient, 1 − momentum")
    if not 0 <= norm_power <= 1:
        raise ValueError(f"norm_power must be in [0, 1], got {norm_power}: Adam⁺ has 1/2, Nadam⁺ 2/3, NIGT 1, SGD 0")
    if not 0 <= beta_power < math.inf:
        raise ValueError(f"beta_power must be finite and at least 0, got {beta_power}: the theorems use 1 and 4/3")
    if not 0 <= eps < math.inf:
        raise ValueError(f"eps must be finite and at least 0, got {eps}: the default is 1e-8")
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay must be finite and at least 0, got {weight_decay}")
    if settings["norm_scope"] not in SCOPES:
        raise ValueError(f"norm_scope must be one of {', '.join(map(repr, SCOPES))}, got {settings['norm_scope']!r}")
    state_dtype = settings["state_dtype"]
    if state_dtype is not None and not (isinstance(state_dtype, torch.dtype) and state_dtype.is_floating_point):
        raise TypeError(f"state_dtype must be a floating dtype such as torch.float32, or None, got {state_dtype!r}")
    check_execution(settings)


def check_execution(settings: dict[str, Any]) -> None:
    """Raise what is wrong with how the step is to be executed."""
    if settings["fused"]:
        raise RuntimeError("fused=True: this version has no fused kernels; leave fused=None, which takes foreach")
    if settings["foreach"] and settings["differentiable"]:
        raise RuntimeError("foreach=True and differentiable=True exclude each other: leave foreach=None")
    if settings["capturable"] and settings["differentiable"]:
        raise RuntimeError("capturable=True and differentiable=True exclude each other: a graph has no autograd")


def _number(name: str, value: Any) -> float:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element, got shape {tuple(value.shape)}")
        return value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number or a 0-dim tensor, got {value!r}")
    return value
