"""The paper's experiments: run, drawn as the paper draws them, and set beside what it claims."""

from .experiments import EXPERIMENTS, NAMES, Experiment
from .reproduction import Reproduction, names, reproduce

__all__ = ["EXPERIMENTS", "NAMES", "Experiment", "Reproduction", "names", "reproduce"]
