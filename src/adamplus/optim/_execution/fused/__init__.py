"""Fused execution: Triton kernels over tables of tensors. A step is a few launches, however many tensors there are.

plan       makes the tables of a step, and checks that they still fit
tables     the tables, and both passes over them
columns    names of the tables' columns
kernels    the three kernels: first pass, η, second pass
gradients  where gradients are, and whether they still look the same
operator   the step as one operator, for torch.compile
"""

from .operator import FusedOperator
from .plan import Fused, refusal

__all__ = ["Fused", "FusedOperator", "refusal"]
