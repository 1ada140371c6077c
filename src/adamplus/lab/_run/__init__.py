"""One training run: everything that decides its numbers, and nothing else."""

from .determinism import one_thread
from .learner import Learner

__all__ = ["Learner", "one_thread"]
