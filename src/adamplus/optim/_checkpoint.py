"""Checkpoints of an optimizer: its state_dict, and loading one that fits."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from . import _settings
from ._layout import is_sharded
from ._state import new_record, offset_dtype, step_device, together

EXECUTION = ("foreach", "fused", "capturable", "differentiable", "skip_nonfinite")
NAMES: dict[Any, Any] = {dtype: str(dtype) for dtype in _settings.STATE_DTYPES}
INSTEAD = "Load it into the optimizer that wrote it, and start this one from the model alone"
UNCHANGED = "Load what state_dict() returned, unchanged"


def is_called_by_checkpoint() -> bool:
    """Whether torch.distributed.checkpoint calls this step, with zero gradients and lr 0, only to create the state.

    The caller's name decides. Gradients could not: a warm-up may begin with lr 0 and, on some ranks, with zero
    gradients, which then are z_0, and the ranks would not agree.
    """
    return is_called_by("_init_optim_state")


def is_called_by(function: str) -> bool:
    """Whether a function of torch with this name is among the callers."""
    frame = sys._getframe()
    while (frame := frame.f_back) is not None:
        if frame.f_code.co_name == function and frame.f_globals.get("__name__", "").startswith("torch."):
            return True
    return False


def _restore_state(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Restore the state as it was saved: torch has cast it to the parameters' dtype, or shares it with `saved`."""
    ids = [i for group in saved["param_groups"] for i in group["params"]]
    places = [(p, group) for group in optimizer.param_groups for p in group["params"]]
    loaded = [(p, group, state) for i, (p, group) in zip(ids, places, strict=True) if (state := saved["state"].get(i))]
    offset_homes = [(p.device, offset_dtype(p)) for p, _, _ in loaded]
    step_homes = [(step_device(p, group), torch.float32) for p, group, _ in loaded]
    offsets = together([state["offset"] for _, _, state in loaded], offset_homes)
    steps = together([state["step"] for _, _, state in loaded], step_homes)
    for (p, group, state), offset, step in zip(loaded, offsets, steps, strict=True):
        z = state["z"].to(p.device, copy=True)
        if dtype := group.get("state_dtype"):  # it may have been read into a z of another dtype
            z = z.to(dtype.to_complex() if p.is_complex() else dtype)
        optimizer.state[p] = {"z": z, "offset": offset, "step": step}
        if "direction" in state:
            optimizer.state[p]["direction"] = state["direction"].to(p.device, copy=True)
    for group in optimizer.param_groups:
        for name, value in optimizer.defaults.items():
            group.setdefault(name, value)
        # A copy: groups that were one when they were saved would count into one record. Records that were saved before
        # steps could be skipped are one number shorter.
        saved_record, group["record"] = group["record"], new_record(group)
        group["record"][: len(saved_record)].copy_(saved_record)


def dtypes_by_name(groups: list[dict[str, Any]], back: bool = False) -> list[dict[str, Any]]:
    """Groups with dtypes as strings, or `back`: torch.distributed.checkpoint cannot gather a dtype."""
    names = {name: dtype for dtype, name in NAMES.items()} if back else NAMES
    return [{key: names.get(v, v) if key == "state_dtype" else v for key, v in group.items()} for group in groups]


def _complete(optimizer: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return the state_dict with what torch.distributed.checkpoint leaves out if it splits a saved group into several.

    The last of these groups gets everything. The others get nothing or, from a full state_dict, what this optimizer
    has. They keep their settings, and take the mode from the rest, and ‖z‖ and Σ‖z‖ too if all share one norm.
    """
    # Groups that were saved before there was a look-ahead had the paper's.
    groups = [
        {"lookahead": None, **group} if "beta" in group else group
        for group in dtypes_by_name(state_dict["param_groups"], back=True)
    ]
    pairs = [*zip(optimizer.param_groups, groups, strict=False)]  # torch raises if their numbers differ
    for own, group in pairs:
        if "param_names" in own and _has_names(group):
            group["param_names"] = own["param_names"]  # a saved group that was divided had those of all its parameters
    lacking = {i: own for i, (own, group) in enumerate(pairs) if _has_nothing_new(own, group)}
    saved = next((group for i, group in enumerate(groups) if i not in lacking), {})
    if {"training", "record"} <= set(saved):
        for i, own in lacking.items():
            record = saved["record"] if own.get("norm_scope") == "global" else new_record(own)
            groups[i] = {**own, **groups[i], "training": saved["training"], "record": record}
    return {**state_dict, "param_groups": groups}


def _has_names(group: dict[str, Any]) -> bool:
    """Whether parameters are names, and so were put into these groups. If they are numbers, groups are as saved."""
    return all(isinstance(name, str) for name in group["params"])


def _has_nothing_new(own: dict[str, Any], group: dict[str, Any]) -> bool:
    if not _has_names(group):
        return False
    if set(group) <= {"params", "param_names"}:
        return True
    same = group.get("training") == own["training"] and isinstance(group.get("record"), Tensor)
    return same and torch.equal(group["record"].cpu(), own["record"].cpu())


def _refuse_other_dicts(state_dict: dict[str, Any]) -> None:
    """Raise for a state_dict that does not have the structure of torch.optim's."""
    if not {"state", "param_groups"} <= set(state_dict):
        raise ValueError(
            f"a state_dict has state and param_groups, this one has {', '.join(map(str, state_dict)) or 'nothing'}"
        )
    states, groups = state_dict["state"], state_dict["param_groups"]
    if not isinstance(states, Mapping):
        raise ValueError(f"state must be a dict, got {states!r}. {UNCHANGED}")
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) and "params" in group for group in groups):
        raise ValueError(f"param_groups must be a list of dicts that have params, got {groups!r}. {UNCHANGED}")


def _refuse_checkpoint(optimizer: Any, state_dict: dict[str, Any], check: Callable[[dict[str, Any]], None]) -> None:
    """Raise, before anything changes, for a state_dict that this optimizer cannot continue. `check` checks settings."""
    groups = state_dict["param_groups"]
    for i, group in enumerate(groups):
        if missing := [name for name in ("beta", *optimizer.METHOD, "training", "record") if name not in group]:
            raise ValueError(
                f"this state_dict is not {optimizer.NAME}'s: its group {i} has no {', '.join(missing)}. {INSTEAD}"
            )
        record = group["record"]
        if not (isinstance(record, Tensor) and record.is_floating_point() and record.shape in ((4,), (5,))):
            # a kernel would write past a shorter one
            raise ValueError(
                f"record of group {i} must be ‖z‖, η, Σ‖z‖ and the numbers of steps and of skipped ones, "
                f"got {record!r}. {UNCHANGED}"
            )
        if not isinstance(group["training"], bool):
            raise ValueError(f"training of group {i} must be True or False, got {group['training']!r}. {UNCHANGED}")
        check({**optimizer.defaults, **group, **_execution_of(optimizer.defaults)})
    if len({group["training"] for group in groups}) > 1:
        raise ValueError("this state_dict has groups in train mode and groups in eval mode: save them in one mode")
    places = [(i, group) for group in groups for i in group["params"]]
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for (i, group), p in zip(places, params, strict=False):  # torch raises if their numbers differ
        if i in state_dict["state"]:
            _refuse_state(optimizer.NAME, optimizer.names_of_state(group), i, p, state_dict["state"][i])


def _execution_of(group: dict[str, Any]) -> dict[str, Any]:
    """The settings of a group that only say how steps are executed."""
    return {name: group[name] for name in EXECUTION if name in group}


def _refuse_state(method: str, names: tuple[str, ...], i: Any, p: Tensor, state: Any) -> None:
    """Raise for a state that parameter p, number i of the state_dict, cannot continue."""
    if not isinstance(state, Mapping):
        raise ValueError(f"the state of parameter {i} must be a dict, got {state!r}. {UNCHANGED}")
    if not state:
        return
    if set(state) != set(names):
        raise ValueError(
            f"this state_dict is not {method}'s: parameter {i} has the state {', '.join(map(str, state))}, "
            f"not {', '.join(names)}. {INSTEAD}"
        )
    z, step = state["z"], state["step"]
    if isinstance(z, Tensor) and z.shape != p.shape:
        raise ValueError(
            f"parameter {i} has shape {tuple(p.shape)}, its z in this state_dict {tuple(z.shape)}: "
            "build the optimizer over the same parameters, in the same order, as when it was saved"
        )
    for name in names:
        _refuse_value(f"{name} of parameter {i}", state[name], None if name in ("offset", "step") else p)
    count = 0.0 if step.is_meta else step.item()
    if not (count >= 0 and count.is_integer()):
        raise ValueError(f"step of parameter {i} must be a whole number of at least 0, got {count}. {UNCHANGED}")
    if is_sharded(z) != is_sharded(p):
        raise ValueError(
            f"parameter {i} is {'sharded' if is_sharded(p) else 'whole'}, its z in this state_dict "
            "is not: load it by set_optimizer_state_dict of torch.distributed.checkpoint.state_dict, "
            "with full_state_dict=True in its options if z is whole"
        )


def _refuse_value(name: str, value: Any, p: Tensor | None) -> None:
    """Raise unless a value is a dense tensor of numbers like p, or a real scalar if p is None."""
    is_complex, shape = (False, ()) if p is None else (p.is_complex(), tuple(p.shape))
    if not isinstance(value, Tensor):
        given = repr(value)
    elif value.layout != torch.strided:
        given = f"a {value.layout} tensor"
    elif (
        value.dtype.to_real() not in _settings.STATE_DTYPES or value.is_complex() != is_complex or value.shape != shape
    ):
        given = f"{value.dtype} of shape {tuple(value.shape)}"
    else:
        return
    kind = "complex" if is_complex else "floating-point"
    raise ValueError(f"{name} must be a tensor of a {kind} dtype and shape {shape}, got {given}. {UNCHANGED}")


@contextmanager
def loading(optimizer: Any, check: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Let torch's `load_state_dict`, called inside of the block, restore state, mode and settings as they were saved.

    How steps are executed (foreach, capturable, …) stays this optimizer's own.
    """
    groups: list[dict[str, Any]] = optimizer.param_groups
    own = [_execution_of(group) for group in groups]
    methods = [tuple(group[name] for name in optimizer.METHOD) for group in groups]
    saved: dict[str, Any] = {}

    def prepare(_: Any, candidate: dict[str, Any]) -> dict[str, Any]:
        _refuse_other_dicts(candidate)
        candidate = _complete(optimizer, candidate)
        _refuse_checkpoint(optimizer, candidate, check)
        saved.update(candidate)
        return candidate

    def restore(_: Any) -> None:
        optimizer._torn, optimizer._training = False, optimizer.param_groups[0]["training"]
        for group, execution in zip(optimizer.param_groups, own, strict=True):
            group.update(execution)
        with torch.inference_mode(False):  # or state could not be written to outside of that mode
            _restore_state(optimizer, saved)

    hooks = (
        optimizer.register_load_state_dict_pre_hook(prepare),  # last, so that it sees what the user's own hooks made
        optimizer.register_load_state_dict_post_hook(restore, prepend=True),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    loaded = [tuple(group[name] for name in optimizer.METHOD) for group in optimizer.param_groups]
    if loaded != methods:
        warnings.warn(
            f"a state_dict of another method was loaded: its {', '.join(optimizer.METHOD)} are {loaded}, and this "
            f"{type(optimizer).__name__} had {methods}. It continues with those that were loaded",
            stacklevel=4,
        )
