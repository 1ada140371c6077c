"""Benchmarks of an optimizer's step: time, memory and bandwidth, as `adamplus bench` measures them."""

from .report import BenchReport, InputError, ModelCosts, StepCost, load, save
from .run import scale, show, step
from .table import markdown

__all__ = [
    "BenchReport",
    "InputError",
    "ModelCosts",
    "StepCost",
    "load",
    "markdown",
    "save",
    "scale",
    "show",
    "step",
]
