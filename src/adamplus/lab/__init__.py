"""Measure and compare optimizers (`pip install -e '.[lab]'` in a clone).

compare(["digits"], ["adam-plus", "adam"], seeds=3)    train tasks with several optimizers
report(Path("runs"))                                   tables, figures and a page of stored runs
reproduce(["cifar10"])                                 the paper's experiments
Task, Contender                                        the classes of a task and of an optimizer that takes part
InputError                                             raised for input that cannot be used
"""

from ._compare import Outcome, compare
from .errors import InputError
from .optimizers import Contender, LogUniform
from .report import report
from .reproduce import Reproduction, reproduce
from .tasks import Moment, Split, Task

__all__ = [
    "Contender",
    "InputError",
    "LogUniform",
    "Moment",
    "Outcome",
    "Reproduction",
    "Split",
    "Task",
    "compare",
    "report",
    "reproduce",
]
