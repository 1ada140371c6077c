"""Reproduction of the paper: its experiments, its figures, and its claims compared with what was measured."""

from .experiments import EXPERIMENTS, NAMES, Experiment
from .readings import READINGS
from .reproduction import Reproduction, reproduce
from .request import CHOICES, ReproduceRequest

__all__ = ["CHOICES", "EXPERIMENTS", "NAMES", "READINGS", "Experiment", "ReproduceRequest", "Reproduction", "reproduce"]
