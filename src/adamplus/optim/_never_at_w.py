"""A log message at the end of the process if a trained optimizer has never put w into its parameters.

Such a run evaluates and ships ŵ, which is usually worse, and nothing else would show it. The message goes to the logger
"adamplus" when the process ends: a warning in the middle of a run would be premature, because the last line of a script
may call `eval()`. Steps inside torch.compile and replays of CUDA graphs are not counted.
"""

import atexit
import logging
import os
import sys

ENOUGH = 100
"""Number of steps from which on the optimizer is taken to train something."""


class Watch:
    """Counts an optimizer's steps until its parameters are at w for the first time."""

    def __init__(self) -> None:
        self.steps: int = 0
        self.name: str = ""
        self.process: int = 0

    def trains(self, name: str) -> None:
        """Note that this optimizer has taken many steps, and that w and ŵ differ."""
        self.name, self.process = name, os.getpid()
        _NEVER_AT_W[id(self)] = self

    def is_at_w(self) -> None:
        """Note that the parameters are at w. Before the first step, that says nothing about the run."""
        if self.steps > 0:
            self.steps = sys.maxsize  # no step is number ENOUGH again
            _NEVER_AT_W.pop(id(self), None)


_NEVER_AT_W: dict[int, Watch] = {}


def _report() -> None:
    """Log the message, once for all optimizers and ranks. A run that failed is not at fault, nor a forked process."""
    failed = getattr(sys, "last_value", None) is not None
    watches = [watch for watch in _NEVER_AT_W.values() if watch.process == os.getpid()]
    if not watches or failed or os.environ.get("RANK", "0") != "0":
        return
    most = max(watches, key=lambda watch: watch.steps)
    raises, logging.raiseExceptions = logging.raiseExceptions, False  # a handler's stream may be closed by now
    try:
        logging.getLogger("adamplus").warning(
            "adamplus: %s took %d steps, and its parameters were never at w, the point to evaluate and to ship. They "
            "are at ŵ, where gradients are taken, which is usually worse. Call optimizer.eval() before you evaluate "
            "or save the model, or optimizer.follow(model) and then model.eval(). "
            "(If it is meant so: logging.getLogger('adamplus').setLevel('ERROR'))",
            most.name,
            most.steps,
        )
    finally:
        logging.raiseExceptions = raises


atexit.register(_report)
