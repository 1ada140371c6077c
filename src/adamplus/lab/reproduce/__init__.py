"""The paper's experiments: run, drawn as the paper draws them, and set beside what it claims."""

from .experiments import EXPERIMENTS, NAMES, Experiment
from .reproduction import Reproduction, reproduce
from .request import CHOICES, ReproduceRequest

__all__ = ["CHOICES", "EXPERIMENTS", "NAMES", "Experiment", "ReproduceRequest", "Reproduction", "reproduce"]
