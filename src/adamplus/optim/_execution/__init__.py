"""How a step is executed: plain, foreach, native (C), differentiable or fused (Triton).

choice          which of them takes a step
lists           a step in lists of tensors, by plain, foreach, native or differentiable
plain           one tensor after the other; takes every dtype, layout and subclass
foreach         many tensors in one call, and C for those that the library takes
native          both passes in C (native.c)
differentiable  out of place, for autograd
fused           Triton kernels
skipping        steps that are skipped because ‖z‖ is not finite
rounding        stochastic rounding to bfloat16
"""

from .choice import capturing, choose, refuse_fused, refuse_step
from .lists import Columns, Gathered, real
from .plain import PLAIN

__all__ = ["PLAIN", "Columns", "Gathered", "capturing", "choose", "real", "refuse_fused", "refuse_step"]
