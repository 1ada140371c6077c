"""Which execution takes a step: fused, foreach or plain, by the settings or else the fastest that the tensors allow.

Foreach hands CPU tensors to C (`Foreach.parts`). A fused plan that still holds is used without asking here
(`AdamPlus._take`).
"""

from typing import Any, Protocol

import torch
from torch import Tensor

from .. import _settings
from .._layout import ORDINARY, is_sharded, local
from .._ranks import Joint
from .differentiable import DifferentiableLists
from .foreach import FOREACH
from .lists import Gathered, Groups, Lists, State
from .plain import PLAIN


class Stepper(Protocol):
    """Takes a whole step."""

    def step(self, gathered: Gathered) -> Any:
        """Take a step, and return a plan that makes the next one faster, or None."""
        ...


def choose(gathered: Gathered, differentiable: bool) -> Stepper:
    """Return what takes this step."""
    if differentiable:
        return DifferentiableLists()
    if wants_fused(gathered.groups, gathered.state, gathered.joint):
        from .fused import Fused, FusedOperator

        return FusedOperator() if torch.compiler.is_compiling() else Fused()
    return Lists(FOREACH if wants_foreach(gathered.groups) else PLAIN)


def new_plan(gathered: Gathered) -> Any:
    """Take a step by Triton kernels, and return the plan with which the next one can repeat it."""
    from .fused import Fused

    return Fused().step(gathered)


def refuse_step(groups: Groups, state: State, differentiable: bool) -> None:
    """Raise for settings and gradients that no step can take, before anything changes."""
    refuse_fused(groups, state)
    for i, group in enumerate(groups):
        _settings.check_execution(group)
        # A compiler would specialise on every value. (Dynamo traces without running: coverage sees one branch.)
        if not torch.compiler.is_compiling():  # pragma: no branch
            _settings.check_plain(group)
        for j, p in enumerate(group["params"]):
            if differentiable and is_sharded(p):
                raise RuntimeError(
                    f"parameter {j} of group {i} is a DTensor, which differentiable=True does not support"
                )
            if differentiable and p.grad is not None and p.is_leaf and p.requires_grad:
                raise RuntimeError(
                    f"parameter {j} of group {i} is a leaf that requires a gradient, and "
                    "differentiable=True writes into it: give the optimizer p.clone()"
                )
            refuse_gradient(p, i, j)
        refuse_capture(group)


def refuse_gradient(p: Tensor, i: int, j: int) -> None:
    """Raise if parameter j of group i has a sparse gradient."""
    if (g := p.grad) is not None and g.layout != torch.strided:
        raise RuntimeError(
            f"parameter {j} of group {i} has a sparse gradient, and z needs dense ones: "
            "use sparse=False in the layer that makes it, or p.grad = p.grad.to_dense()"
        )


def refuse_capture(group: dict[str, Any]) -> None:
    """Raise if a CUDA graph is being captured and the group's step counts are on the host."""
    if not group["capturable"] and not group["fused"] and capturing():
        raise RuntimeError("a CUDA graph is being captured, and the step count is on the host: pass capturable=True")


def refuse_fused(groups: Groups, state: State) -> None:
    """Raise if fused kernels are requested and cannot step these parameters."""
    if not any(group["fused"] for group in groups):
        return
    for i, group in enumerate(groups):
        if group["fused"] is False or group["foreach"] is not None:
            raise RuntimeError(
                f"fused kernels step all groups in one go, and group {i} has fused={group['fused']}, "
                f"foreach={group['foreach']}: pass fused=True for all groups, or for none"
            )
    if (refusal := _refusal(groups, state)) is not None:
        raise RuntimeError(f"fused=True: {refusal}. Leave fused=None: foreach takes what the kernels cannot")


def capturing() -> bool:
    """Whether a CUDA graph is being captured."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def wants_fused(groups: Groups, state: State, joint: Joint | None = None) -> bool:
    """Whether fused kernels step these groups."""
    fused = [group["fused"] for group in groups]
    params = [p for group in groups for p in group["params"]]
    if torch.compiler.is_compiling():  # a compiler fuses the lists, unless fused kernels are requested
        wanted = all(fused) and joint is None
    elif {*fused, *(group["foreach"] for group in groups)} == {None}:
        wanted = _on_cuda(params) and _refusal(groups, state) is None
    else:
        wanted = True in fused
    # Without gradients there is nothing to launch, and `Lists` still joins the sum over ranks.
    return wanted and any(p.grad is not None for p in params)


def wants_foreach(groups: Groups) -> bool:
    """Whether foreach takes the steps that nothing faster can take."""
    foreach = [group["foreach"] for group in groups]
    if True in foreach or False in foreach:
        return False not in foreach
    params = [p for group in groups for p in group["params"]]
    return all(type(p) in ORDINARY or type(local(p)) in ORDINARY for p in params)


def _on_cuda(params: list[Tensor]) -> bool:
    return all(p.is_cuda for p in params)


def _refusal(groups: Groups, state: State) -> str | None:
    """Why fused kernels cannot step these parameters, or None if they can."""
    try:
        from .fused import refusal
    except ImportError:
        return "Triton is not installed (pip install triton)"
    return refusal(groups, state)
