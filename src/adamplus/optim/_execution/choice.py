"""How a step is executed: what was asked for, and by itself the fastest way that these tensors allow."""

from typing import Any

import torch
from torch import Tensor

from .._ranks import PLAIN, Joint, local
from . import differentiable as _differentiable
from . import foreach as _foreach
from . import plain

Groups = list[dict[str, Any]]
State = dict[Tensor, dict[str, Tensor]]


def choose(groups: Groups, state: State, differentiable: bool, joint: Joint | None) -> Any:
    """The module that executes the next step; None for fused kernels, which take all of it at once."""
    if differentiable:
        return _differentiable
    fused, foreach = ([group[name] for group in groups] for name in ("fused", "foreach"))
    params = [p for group in groups for p in group["params"]]
    undecided = set(fused) | set(foreach) == {None}
    wanted = True in fused or (undecided and _on_cuda(params) and _refusal(groups, state) is None)
    if torch.compiler.is_compiling():  # a compiler fuses by itself, unless it is told otherwise
        wanted = all(fused) and joint is None
    # Without any gradient, there is only the norm of other ranks to take part in.
    if wanted and any(p.grad is not None for p in params):
        return None
    if False in foreach:
        return plain
    if True in foreach or all(type(local(p)) in PLAIN for p in params):
        return _foreach
    return plain


def refuse_fused(groups: Groups, state: State) -> None:
    """Raise where fused kernels are asked for and cannot step these parameters."""
    if not any(group["fused"] for group in groups):
        return
    for i, group in enumerate(groups):
        if group["fused"] is False or group["foreach"] is not None:
            raise RuntimeError(
                f"fused kernels step all groups in one go, and group {i} has fused={group['fused']}, "
                f"foreach={group['foreach']}: pass fused=True for all groups, or for none"
            )
    if (refusal := _refusal(groups, state)) is not None:
        raise RuntimeError(f"fused=True: {refusal}. Leave fused=None: foreach takes what kernels cannot")


def _on_cuda(params: list[Tensor]) -> bool:
    return all(p.is_cuda for p in params)


def fused_plan(groups: Groups, state: State, joint: Joint | None) -> Any:
    """A plan of the fused kernels for these tensors."""
    from .fused.plan import Plan

    return Plan(groups, state, joint)


def call_fused(groups: Groups, rows: list[list[list[Tensor]]], scale: Any, found_inf: Any) -> None:
    """One fused step as an operator, for a compiler."""
    from .fused.operator import call

    call(groups, rows, scale, found_inf)


def _refusal(groups: Groups, state: State) -> str | None:
    """Why fused kernels cannot step these parameters, if they cannot."""
    try:
        from .fused.plan import refusal
    except ImportError:
        return "Triton is not installed (pip install triton)"
    return refusal(groups, state)
