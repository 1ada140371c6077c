"""One training run: everything that decides its numbers, and nothing else. The training loop is in learner.py."""

from .determinism import one_thread, prepare_process
from .learner import Learner, divergence

__all__ = ["Learner", "divergence", "one_thread", "prepare_process"]
