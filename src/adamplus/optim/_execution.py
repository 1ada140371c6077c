"""How a step is executed: what was asked for, and by itself the fastest way that these tensors allow."""

from typing import Any

import torch
from torch import Tensor

from . import _differentiable, _foreach, _plain

Groups = list[dict[str, Any]]


def choose(groups: Groups, differentiable: bool) -> Any:
    """The module that executes the next step; None for fused kernels, which have a plan instead."""
    if differentiable:
        return _differentiable
    fused, foreach = ([group[name] for group in groups] for name in ("fused", "foreach"))
    params = [p for group in groups for p in group["params"]]
    undecided = set(fused) | set(foreach) == {None}
    refuse_fused(groups)
    wanted = True in fused or (undecided and _on_cuda(params) and _refusal(groups) is None)
    # A compiler fuses by itself. Without any gradient, there is only the norm of other ranks to take part in.
    if wanted and not torch.compiler.is_compiling() and any(p.grad is not None for p in params):
        return None
    if False in foreach:
        return _plain
    if True in foreach or all(type(p) in (Tensor, torch.nn.Parameter) for p in params):
        return _foreach
    return _plain


def refuse_fused(groups: Groups) -> None:
    """Raise where fused kernels are asked for and cannot step these parameters."""
    if any(group["fused"] for group in groups) and (refusal := _refusal(groups)) is not None:
        raise RuntimeError(f"fused=True: {refusal}. Leave fused=None: foreach takes what kernels cannot")


def _on_cuda(params: list[Tensor]) -> bool:
    return all(p.is_cuda for p in params)


def fused_plan(groups: Groups, state: dict[Tensor, dict[str, Tensor]]) -> Any:
    """A plan of the fused kernels for these tensors."""
    from ._fused import Plan

    return Plan(groups, state)


def _refusal(groups: Groups) -> str | None:
    """Why fused kernels cannot step these parameters, if they cannot."""
    try:
        from ._fused import refusal
    except ImportError:
        return "Triton is not installed (pip install triton)"
    return refusal(groups)
