"""Settings of a parameter group: their ranges, and the errors for values outside of them."""

import math
import sys
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

NormScope: TypeAlias = Literal["global", "group", "tensor"]
SCOPES = get_args(NormScope)
FLAGS = ("decoupled_weight_decay", "maximize", "stacked", "transposed", "keep_direction")
EXECUTION_FLAGS = ("foreach", "fused", "capturable", "differentiable", "stochastic_rounding", "skip_nonfinite")
STATE_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
LARGEST_DECAY = 0.01 * (1 + 1e-6)
"""Part of w that decoupled decay may take in a step without a warning. It allows for float32."""
RULES: dict[str, tuple[Callable[[float], bool], tuple[str, str]]] = {
    "lr": (lambda x: 0 <= x < math.inf, ("finite and at least 0", ": to ascend, pass maximize=True")),
    "beta": (lambda x: 0 < x <= 1, ("in (0, 1]", ": it is the weight of the new gradient, 1 − momentum")),
    "norm_power": (lambda x: 0 <= x <= 1, ("in [0, 1]", ": Adam⁺ has 1/2, Nadam⁺ 2/3, NIGT 1, SGD 0")),
    "beta_power": (lambda x: 0 <= x < math.inf, ("finite and at least 0", ": the theorems use 1 and 4/3")),
    "eps": (lambda x: 0 <= x < math.inf, ("finite and at least 0", ": the default is 1e-8")),
    "lookahead": (
        lambda x: 0 <= x < math.inf,
        ("finite and at least 0, or None", ": it is the number of steps ahead of w"),
    ),
    "weight_decay": (lambda x: 0 <= x < math.inf, ("finite and at least 0", "")),
}


def check(settings: dict[str, Any]) -> None:
    """Raise for a setting that a group may not have. The message names the value and what to use instead."""
    check_method(settings)
    state_dtype = settings["state_dtype"]
    if state_dtype is not None and state_dtype not in STATE_DTYPES:
        raise TypeError(f"state_dtype must be one of {', '.join(map(str, STATE_DTYPES))} or None, got {state_dtype!r}")
    check_execution(settings)


def check_method(settings: dict[str, Any]) -> None:
    """Raise for a setting of the method, however it is executed."""
    for name in ("lr", "beta"):
        check_number(name, _number(name, settings[name]))
    check_plain(settings)


def check_plain(settings: dict[str, Any]) -> None:
    """Check settings that may have changed since the group was made, without reading a tensor."""
    for name in [name for name in RULES if name in settings]:
        value = settings[name]
        if (name in ("lr", "beta") and isinstance(value, Tensor)) or (name == "lookahead" and value is None):
            continue
        check_number(name, _plain_number(name, value, " or None" if name == "lookahead" else ""))
    if (scope := settings.get("norm_scope", "global")) not in SCOPES:
        raise ValueError(f"norm_scope must be one of {', '.join(map(repr, SCOPES))}, got {scope!r}")
    for name in [name for name in FLAGS if name in settings]:
        _check_flag(name, settings[name])


def warn_of_decay(settings: dict[str, Any]) -> None:
    """Warn if decoupled weight decay takes more than a hundredth of w in a step.

    It is no error, because it is defined, and only for new groups: a checkpoint must load, and a schedule go on.
    """
    lr, decay = _number("lr", settings["lr"]), settings["weight_decay"]
    if settings["decoupled_weight_decay"] and lr * decay > LARGEST_DECAY:
        warnings.warn(
            f"decoupled weight decay multiplies w by 1 − lr·weight_decay in each step, and lr={lr:g} with "
            f"weight_decay={decay:g} takes {lr * decay:.2g} of it. With 0.01, half of w is gone after 69 steps. lr "
            "is about a thousand times AdamW's here: for its decay, pass weight_decay = AdamW's "
            f"lr·weight_decay / lr (AdamW's defaults, 0.001·0.01, are {1e-5 / lr:.2g} with this lr)",
            stacklevel=_frames_inside() + 1,
        )


def _frames_inside() -> int:
    """Number of frames between the caller and the first one that belongs to neither this package nor torch."""
    frame, count = sys._getframe(1), 0
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("adamplus", "torch"):
        frame, count = frame.f_back, count + 1
    return count


def check_number(name: str, value: float) -> None:
    """Raise if a setting is outside of its range."""
    allowed, words = RULES[name]
    if not allowed(value):
        raise ValueError(f"{name} must be {words[0]}, got {value}{words[1] if math.isfinite(value) else ''}")


def check_execution(settings: dict[str, Any]) -> None:
    """Raise for a setting of how the step is executed."""
    for name in [name for name in EXECUTION_FLAGS if name in settings]:
        _check_flag(name, settings[name], or_none=name in ("foreach", "fused"))
    differentiable = settings.get("differentiable", False)
    if settings["fused"] and settings["foreach"]:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together: leave one of them None")
    if settings["fused"] and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`: leave fused=None")
    if settings["foreach"] and differentiable:
        raise RuntimeError("foreach=True and differentiable=True exclude each other: leave foreach=None")
    if settings["stochastic_rounding"] and differentiable:
        raise RuntimeError(
            "stochastic_rounding=True and differentiable=True exclude each other: noise has no derivative"
        )
    if settings["capturable"] and differentiable:
        raise RuntimeError("capturable=True and differentiable=True exclude each other: a graph has no autograd")


def _check_flag(name: str, value: Any, or_none: bool = False) -> None:
    if not isinstance(value, bool) and not (or_none and value is None):
        raise TypeError(f"{name} must be True{' or None' * or_none} or False, got {value!r}")


def _number(name: str, value: Any) -> float:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element, got shape {tuple(value.shape)}")
        return value.item()
    return _plain_number(name, value, " or a 0-dim tensor")


def _plain_number(name: str, value: Any, other: str = "") -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number{other}, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be finite, got an integer that no float can hold") from None
