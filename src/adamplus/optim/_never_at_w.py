"""A log message at the end of the process if a trained optimizer has never put w into its parameters.

Such a run evaluates and ships ŵ, which is usually worse, and nothing else would show it. The message goes to the logger
"adamplus" when the process ends: a warning in the middle of a run would be premature, because the last line of a script
may call `eval()`.

Compiled steps and replays of CUDA graphs run no Python that could count them. They are read from the records of the
groups, which the device counts in, when the process ends.
"""

import atexit
import logging
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from weakref import ref

from torch import Tensor

ENOUGH = 100
"""Number of steps from which on the optimizer is taken to train something."""


class Watch:
    """Counts an optimizer's steps until its parameters are at w for the first time.

    A deep copy of an optimizer has its own: if the copy is evaluated at w, the original counts as evaluated, too.
    """

    def __init__(self, original: "Watch | None" = None) -> None:
        self.steps: int = 0
        """Steps that Python has taken."""
        self.name: str = ""
        self.process: int = 0
        self._records: list[Tensor] = []
        """Records of the groups, if steps may be taken without Python."""
        self._loaded: int = 0
        """Steps in the records that another optimizer took."""
        self._original = None if original is None else ref(original)

    def report(self, name: str) -> None:
        """Report this optimizer, unless its parameters come to w: it has taken many steps, and w and ŵ differ."""
        self.name, self.process = name, os.getpid()
        _NEVER_AT_W[id(self)] = self

    def read_records(self, name: str, groups: Iterable[dict[str, Any]]) -> None:
        """Note that the device counts the steps of these groups, and that w and ŵ differ."""
        if self.steps < sys.maxsize:
            self._records = [group["record"] for group in groups]
            self.report(name)

    def restart(self, name: str, groups: Iterable[dict[str, Any]]) -> None:
        """Note that these groups have the records of a checkpoint, or of the optimizer that this one is a copy of."""
        groups = list(groups)
        self._loaded = _steps(group["record"] for group in groups)
        if self._records or any(group["capturable"] for group in groups):
            self.read_records(name, groups)

    def count(self) -> int:
        """Number of steps that were taken here, by Python or without it. Waits for the device."""
        return max(self.steps, _steps(self._records) - self._loaded)

    def is_at_w(self) -> None:
        """Note that the parameters are at w. Before the first step, that says nothing about the run."""
        watch: Watch | None = self
        while watch is not None:
            if watch.steps > 0 or watch._records:
                watch.steps, watch._records = sys.maxsize, []  # no step is number ENOUGH again
                _NEVER_AT_W.pop(id(watch), None)
            watch = watch._original and watch._original()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Watch":
        return Watch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Watch, ()


def _steps(records: Iterable[Tensor]) -> int:
    """The largest number of steps in these records, or 0 if their device does not answer any more."""
    with suppress(RuntimeError):
        return max((int(record[3]) for record in records), default=0)
    return 0


_NEVER_AT_W: dict[int, Watch] = {}


def _report() -> None:
    """Log the message, once for all optimizers and ranks. A run that failed is not at fault, nor a forked process."""
    failed = getattr(sys, "last_value", None) is not None
    watches = [watch for watch in _NEVER_AT_W.values() if watch.process == os.getpid()]
    if not watches or failed or os.environ.get("RANK", "0") != "0":
        return
    steps, name = max((watch.count(), watch.name) for watch in watches)
    if steps < ENOUGH:
        return
    raises, logging.raiseExceptions = logging.raiseExceptions, False  # a handler's stream may be closed by now
    try:
        logging.getLogger("adamplus").warning(
            "adamplus: %s took %d steps, and its parameters were never at w, the point to evaluate and to ship. They "
            "are at ŵ, where gradients are taken, which is usually worse. Call optimizer.eval() before you evaluate "
            "or save the model, or optimizer.follow(model) and then model.eval(). "
            "(If it is meant so: logging.getLogger('adamplus').setLevel('ERROR'))",
            name,
            steps,
        )
    finally:
        logging.raiseExceptions = raises


atexit.register(_report)
