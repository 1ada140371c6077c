"""A log message at the end of the process if a trained optimizer has never put w into its parameters.

Such a run evaluates and ships ŵ, which is usually worse, and nothing else would show it. The message goes to the logger
"adamplus" when the process ends: a warning in the middle of a run would be premature, because the last line of a script
may call `eval()`.
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

    def trains(self, name: str) -> None:
        """Note that this optimizer has taken many steps, and that w and ŵ differ."""
        self.name = name
        _NEVER_AT_W[id(self)] = self

    def is_at_w(self) -> None:
        """Note that the parameters are at w."""
        self.steps = sys.maxsize  # no step is number ENOUGH again
        _NEVER_AT_W.pop(id(self), None)


_NEVER_AT_W: dict[int, Watch] = {}


def _report() -> None:
    """Log the message, once for all optimizers and ranks. A run that failed is not at fault."""
    failed = getattr(sys, "last_value", None) is not None
    if _NEVER_AT_W and not failed and os.environ.get("RANK", "0") == "0":
        most = max(_NEVER_AT_W.values(), key=lambda watch: watch.steps)
        logging.getLogger("adamplus").warning(
            "adamplus: %s took %d steps, and its parameters were never at w, the point to evaluate and to ship. They "
            "are at ŵ, where gradients are taken, which is usually worse. Call optimizer.eval() before you evaluate "
            "or save the model, or optimizer.follow(model) and then model.eval(). "
            "(If it is meant so: logging.getLogger('adamplus').setLevel('ERROR'))",
            most.name,
            most.steps,
        )


atexit.register(_report)
