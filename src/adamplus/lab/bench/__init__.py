"""Benchmarks of an optimizer's step: time, memory and bandwidth, as `adamplus bench` measures them."""

from .contenders import CONTENDERS, by_optimizer
from .report import BenchReport, InputError, ModelCosts, StepCost, load, save
from .run import scale, show, step
from .shapes import MODELS, ON_CPU
from .table import markdown

__all__ = [
    "CONTENDERS",
    "MODELS",
    "ON_CPU",
    "BenchReport",
    "InputError",
    "ModelCosts",
    "StepCost",
    "by_optimizer",
    "load",
    "markdown",
    "save",
    "scale",
    "show",
    "step",
]
