"""What an optimizer keeps: z, offset and step of each parameter, and the record of each group's norms."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from . import _settings
from ._norm import scalar_dtype
from ._ranks import is_split

STATE = ("z", "offset", "step")
EXECUTION = ("foreach", "fused", "capturable", "differentiable")
NAMES: dict[Any, Any] = {dtype: str(dtype) for dtype in _settings.STATE_DTYPES}
INSTEAD = "Load it into the optimizer that wrote it, and start Adam⁺ from the model alone"


def new_states(params: list[Tensor], group: dict[str, Any]) -> list[dict[str, Tensor]]:
    """The states of parameters before their first step."""
    zero = torch.zeros((), device="cpu")
    offsets = together([zero] * len(params), [(p.device, _offset_dtype(p)) for p in params])
    steps = together([zero] * len(params), [(_step_device(p, group), torch.float32) for p in params])
    zs = [_new_z(p, group) for p in params]
    return [{"z": z, "offset": c, "step": t} for z, c, t in zip(zs, offsets, steps, strict=True)]


def _new_z(p: Tensor, group: dict[str, Any]) -> Tensor:
    refuse_dtype(p, group)
    own = p.dtype.to_real()
    dtype = group["state_dtype"] or (torch.float32 if own.itemsize == 2 else own)
    return torch.zeros_like(p, dtype=dtype.to_complex() if p.is_complex() else dtype)


def refuse_dtype(p: Tensor, group: dict[str, Any]) -> None:
    """Raise for a parameter that no step can move."""
    if not (p.is_floating_point() or p.is_complex()) or p.dtype.to_real().itemsize < 2:
        raise TypeError(
            f"a parameter is {p.dtype}, and steps are smaller than its rounding: leave it out, or train a copy of it "
            "in 16 bits or more"
        )
    if p.is_complex() and (dtype := group["state_dtype"]) is not None and dtype.itemsize == 2:
        raise TypeError(f"state_dtype={dtype} for a {p.dtype} parameter: complex z is float32 or float64")


def together(scalars: list[Tensor], homes: list[tuple[torch.device, torch.dtype]]) -> list[Tensor]:
    """Copies of scalars with these devices and dtypes; on an accelerator in one piece: each alone takes 512 bytes."""
    if len({(s.device, s.dtype) for s in scalars}) == len(set(homes)) == 1 and homes[0][0].type != "cpu":
        return list(torch.stack(scalars).to(*homes[0]).unbind())
    return [s.to(*home, copy=True) for s, home in zip(scalars, homes, strict=True)]


def separate(state: dict[str, Tensor]) -> bool:
    """Give the scalars memory of their own again, and say whether they had none.

    Inductor steps copies of tensors that share memory, and loses some of what is written to them (torch 2.11, CUDA).
    """
    shared = [name for name in ("offset", "step") if state[name].untyped_storage().nbytes() > state[name].itemsize]
    for name in shared:
        state[name] = state[name].clone()
    return bool(shared)


def suit(p: Tensor, state: dict[str, Tensor]) -> None:
    """Bring a parameter's state to its device and into its layout, as fused kernels need it."""
    refuse_other_data(p, state["z"])
    for name, value in state.items():
        if value.device != p.device:
            state[name] = value.to(p.device)  # pragma: no cover - of another device, which CI has not
    if state["offset"].dtype != torch.float32:  # of a parameter that was float64 when its state was loaded
        state["offset"] = state["offset"].float()
    if not same_layout(state["z"], p):
        state["z"] = torch.empty_like(p, dtype=state["z"].dtype).copy_(state["z"])


def refuse_other_data(p: Tensor, z: Tensor) -> None:
    """Raise where a parameter is not the one that its state was made for."""
    if z.shape != p.shape:
        raise RuntimeError(
            f"a parameter has shape {tuple(p.shape)}, and its z {tuple(z.shape)}: it was given other data "
            "since its last step. Delete its state (optimizer.state.pop(p)), and it starts anew"
        )


def same_layout(a: Tensor, b: Tensor) -> bool:
    """Whether tensors of one shape have their elements in the same order in memory."""
    strides = zip(a.shape, a.stride(), b.stride(), strict=True)
    return a.stride() == b.stride() or all(i == j for size, i, j in strides if size > 1)


def new_record(group: dict[str, Any]) -> Tensor:
    """‖z‖, η, Σ‖z‖ and the number of steps of a group before its first, where its first parameter is."""
    device = _home(group)
    return torch.zeros(4, dtype=scalar_dtype(device), device=device)


def asked_by_checkpoint() -> bool:
    """Whether torch.distributed.checkpoint takes this step, to have the state made: with zero gradients, and lr 0.

    Told by its caller, for ranks would not agree on it by their gradients: a warm-up may begin with lr 0 and, on some
    ranks, with zero gradients, which then are z_0.
    """
    frame = sys._getframe()
    while (frame := frame.f_back) is not None:
        if frame.f_code.co_name == "_init_optim_state" and frame.f_globals.get("__name__", "").startswith("torch."):
            return True
    return False


def restore_state(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Take the state as it was saved: torch has cast it to the parameters' dtype, or shares it with `saved`."""
    ids = [i for group in saved["param_groups"] for i in group["params"]]
    places = [(p, group) for group in optimizer.param_groups for p in group["params"]]
    loaded = [(p, group, state) for i, (p, group) in zip(ids, places, strict=True) if (state := saved["state"].get(i))]
    offset_homes = [(p.device, _offset_dtype(p)) for p, _, _ in loaded]
    step_homes = [(_step_device(p, group), torch.float32) for p, group, _ in loaded]
    offsets = together([state["offset"] for _, _, state in loaded], offset_homes)
    steps = together([state["step"] for _, _, state in loaded], step_homes)
    for (p, group, state), offset, step in zip(loaded, offsets, steps, strict=True):
        z = state["z"].to(p.device, copy=True)
        if dtype := group.get("state_dtype"):  # where it was read into a z of another dtype, its own can hold it again
            z = z.to(dtype.to_complex() if p.is_complex() else dtype)
        optimizer.state[p] = {"z": z, "offset": offset, "step": step}
    for group in optimizer.param_groups:
        for name, value in optimizer.defaults.items():
            group.setdefault(name, value)
        device = _home(group)
        # A copy: groups that were one when they were saved would count into one record.
        group["record"] = group["record"].to(device, scalar_dtype(device), copy=True)


def dtypes_by_name(groups: list[dict[str, Any]], back: bool = False) -> list[dict[str, Any]]:
    """Groups with dtypes as strings, or `back`: torch.distributed.checkpoint gathers no dtype of a full state_dict."""
    names = {name: dtype for dtype, name in NAMES.items()} if back else NAMES
    return [{key: names.get(v, v) if key == "state_dtype" else v for key, v in group.items()} for group in groups]


def complete(optimizer: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    """The state_dict, with what torch.distributed.checkpoint leaves out where it splits a saved group into several.

    The last of them gets everything; the others nothing or, of a full state_dict, what this optimizer has. They keep
    the settings that they have here, and take the mode from the rest; ‖z‖ and Σ‖z‖ too, where all have one norm.
    """
    groups = dtypes_by_name(state_dict.get("param_groups", []), back=True)
    pairs = zip(optimizer.param_groups, groups, strict=False)  # torch itself says where their numbers differ
    lacking = {i: own for i, (own, group) in enumerate(pairs) if _has_nothing_new(own, group)}
    saved = next((group for i, group in enumerate(groups) if i not in lacking), {})
    if {"training", "record"} <= set(saved):
        for i, own in lacking.items():
            record = saved["record"] if own["norm_scope"] == "global" else new_record(own)
            groups[i] = {**own, **groups[i], "training": saved["training"], "record": record}
    return {**state_dict, "param_groups": groups} if groups else state_dict


def _has_nothing_new(own: dict[str, Any], group: dict[str, Any]) -> bool:
    if not all(isinstance(name, str) for name in group["params"]):  # a number: nobody regrouped it
        return False
    if set(group) == {"params"}:
        return True
    same = group.get("training") == own["training"] and isinstance(group.get("record"), Tensor)
    return same and torch.equal(group["record"].cpu(), own["record"].cpu())


def refuse_foreign(optimizer: Optimizer, state_dict: dict[str, Any], check: Callable[[dict[str, Any]], None]) -> None:
    """Raise, before anything changes, for a state_dict that this optimizer cannot continue; `check` is for settings."""
    if not {"state", "param_groups"} <= set(state_dict):
        raise ValueError(
            f"a state_dict has state and param_groups, this one {', '.join(map(str, state_dict)) or 'nothing'}"
        )
    groups = state_dict["param_groups"]
    for i, group in enumerate(groups):
        if missing := [name for name in ("beta", "norm_power", "training", "record") if name not in group]:
            raise ValueError(f"this state_dict is not Adam⁺'s: its group {i} has no {', '.join(missing)}. {INSTEAD}")
        if torch.as_tensor(group["record"]).shape != (4,):  # a kernel would write past it
            raise ValueError(f"record of group {i} has to be ‖z‖, η, Σ‖z‖ and steps, and is {group['record']!r}")
        check({**optimizer.defaults, **group, **{name: optimizer.defaults[name] for name in EXECUTION}})
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
        if is_split(state["z"]) != is_split(p):
            raise ValueError(
                f"parameter {i} is {'sharded' if is_split(p) else 'whole'}, its z in this state_dict "
                "is not: load it by set_optimizer_state_dict of torch.distributed.checkpoint.state_dict, "
                "with full_state_dict=True in its options where z is whole"
            )


def _offset_dtype(p: Tensor) -> torch.dtype:
    return torch.float64 if p.dtype.to_real() == torch.float64 else torch.float32


def _step_device(p: Tensor, group: dict[str, Any]) -> torch.device:
    return p.device if group["capturable"] or group["fused"] else torch.device("cpu")


def _home(group: dict[str, Any]) -> torch.device:
    return group["params"][0].device if group["params"] else torch.device("cpu")
