"""How a step is executed: plain, foreach, native (C), differentiable or fused (Triton).

choice          which of them takes a step
lists           a step in lists of tensors, by plain, foreach, native or differentiable
plain           one tensor after the other; takes every dtype, layout and subclass
foreach         many tensors in one call, and C for those that the library takes
native          both passes in C (native.c)
differentiable  out of place, for autograd
fused           Triton kernels
skipping        steps that are skipped because ‖z‖ is not finite
spectral        parts of a group of SpectralPlus
rounding        stochastic rounding to bfloat16
"""

from .choice import (
    capturing,
    choose,
    new_plan,
    refuse_capture,
    refuse_fused,
    refuse_gradient,
    refuse_step,
    wants_foreach,
    wants_fused,
)
from .lists import Columns, Gathered, real, whole
from .plain import PLAIN
from .spectral import spectral_parts

__all__ = [
    "PLAIN",
    "Columns",
    "Gathered",
    "capturing",
    "choose",
    "new_plan",
    "real",
    "refuse_capture",
    "refuse_fused",
    "refuse_gradient",
    "refuse_step",
    "spectral_parts",
    "wants_foreach",
    "wants_fused",
    "whole",
]
