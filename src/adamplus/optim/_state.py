"""What is kept: for a parameter z, offset and step, for a group the record of its norms; new, and from a checkpoint."""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from . import _settings
from ._norm import scalar_dtype

STATE = ("z", "offset", "step")
EXECUTION = ("foreach", "fused", "capturable", "differentiable")
INSTEAD = "Load it into the optimizer that wrote it, and start Adam⁺ from the model alone"


def new_state(p: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
    """The state of a parameter before its first step."""
    own = p.dtype.to_real()
    dtype = group["state_dtype"] or (torch.float32 if own.itemsize == 2 else own)
    if p.is_complex() and dtype.itemsize == 2:
        raise TypeError(f"state_dtype={dtype} for a {p.dtype} parameter: complex z is float32 or float64")
    return {
        "z": torch.zeros_like(p, dtype=dtype.to_complex() if p.is_complex() else dtype),
        "offset": torch.zeros((), dtype=_offset_dtype(p), device=p.device),
        "step": torch.zeros((), dtype=torch.float32, device=_step_device(p, group)),
    }


def new_record(group: dict[str, Any]) -> Tensor:
    """‖z‖, η and Σ‖z‖ of a group before its first step, where its first parameter is."""
    device = _home(group)
    return torch.zeros(3, dtype=scalar_dtype(device), device=device)


def restore_state(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Take the state as it was saved: torch has cast it to the parameters' dtype, or shares it with `saved`."""
    ids = [i for group in saved["param_groups"] for i in group["params"]]
    places = [(p, group) for group in optimizer.param_groups for p in group["params"]]
    for i, (p, group) in zip(ids, places, strict=True):
        if state := saved["state"].get(i):
            optimizer.state[p] = {
                "z": state["z"].to(p.device, copy=True),
                "offset": state["offset"].to(p.device, _offset_dtype(p), copy=True),
                "step": state["step"].to(_step_device(p, group), torch.float32, copy=True),
            }
    for group in optimizer.param_groups:
        for name, value in optimizer.defaults.items():
            group.setdefault(name, value)
        device = _home(group)
        group["record"] = group["record"].to(device, scalar_dtype(device))


def refuse_foreign(optimizer: Optimizer, state_dict: dict[str, Any]) -> None:
    """Raise, before anything changes, for a state_dict that this optimizer cannot continue."""
    if not {"state", "param_groups"} <= set(state_dict):
        raise ValueError(
            f"a state_dict has state and param_groups, this one {', '.join(map(str, state_dict)) or 'nothing'}"
        )
    groups = state_dict["param_groups"]
    for i, group in enumerate(groups):
        if missing := [name for name in ("beta", "norm_power", "training", "record") if name not in group]:
            raise ValueError(f"this state_dict is not Adam⁺'s: its group {i} has no {', '.join(missing)}. {INSTEAD}")
        _settings.check({**optimizer.defaults, **group, **{name: optimizer.defaults[name] for name in EXECUTION}})
    if len({group["training"] for group in groups}) > 1:
        raise ValueError("this state_dict has groups in train mode and groups in eval mode: save them in one mode")
    ids = [i for group in groups for i in group["params"]]
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for i, p in zip(ids, params, strict=False):  # torch itself says where their numbers differ
        state = state_dict["state"].get(i)
        if not state:
            continue
        if set(state) != set(STATE) or not all(isinstance(value, Tensor) for value in state.values()):
            raise ValueError(
                f"this state_dict is not Adam⁺'s: parameter {i} has the state {', '.join(state)}, "
                f"not {', '.join(STATE)}. {INSTEAD}"
            )
        if state["z"].shape != p.shape:
            raise ValueError(
                f"parameter {i} has shape {tuple(p.shape)}, its z in this state_dict {tuple(state['z'].shape)}: "
                "build the optimizer over the same parameters, in the same order, as when it was saved"
            )


def _offset_dtype(p: Tensor) -> torch.dtype:
    return torch.float64 if p.dtype.to_real() == torch.float64 else torch.float32


def _step_device(p: Tensor, group: dict[str, Any]) -> torch.device:
    return p.device if group["capturable"] or group["fused"] else torch.device("cpu")


def _home(group: dict[str, Any]) -> torch.device:
    return group["params"][0].device if group["params"] else torch.device("cpu")
