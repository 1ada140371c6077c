"""What a task is: data, model, loss, metrics and budget, in one file."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

from torch import Tensor, nn

Split = tuple[Tensor, Tensor]
"""Inputs and targets; row i of one belongs to row i of the other."""


class Moment(NamedTuple):
    """Where a run stands before an epoch, and who runs."""

    epoch: int
    """0, 1, …"""
    epochs: int
    """Of the whole run."""
    optimizer: str
    """Its registered name, or the path of its file."""
    history: Sequence[Mapping[str, float]]
    """The metrics of the epochs before."""
    part: float = 0.0
    """Of the epoch that lies behind, from 0 to below 1; where the schedule is asked for before each step."""

    @property
    def progress(self) -> float:
        """The part of the whole run that lies behind, from 0 to below 1."""
        return (self.epoch + self.part) / self.epochs


class Task(ABC):
    """What optimizers are compared on. A file has one, and its first line says what it is."""

    epochs: ClassVar[int] = 20
    batch: ClassVar[int] = 64
    """Rows of the data that a step sees."""
    metric: ClassVar[str] = "loss"
    """What learning rates are chosen by, on validation data, and what is told, of test data."""
    better: ClassVar[Literal["lower", "higher"]] = "lower"
    target: ClassVar[float | None] = None
    """Of the metric on test data; time is taken until it is reached."""
    ordered: ClassVar[bool] = False
    """Whether rows are visited in their order (a stream of text), not in a new one each epoch."""
    stepwise: ClassVar[bool] = False
    """Whether the schedule is asked for before each step (a warm-up, a cosine), not only before each epoch."""
    clip: ClassVar[float | None] = None
    """The largest norm of a gradient; larger ones are shortened to it."""
    train_rows: ClassVar[int | None] = None
    """How many training rows are evaluated like validation and test data; as many as test rows by itself."""

    evaluation_rows: ClassVar[int | None] = None
    """How many rows are evaluated at once; those of four batches by itself."""
    capture: ClassVar[bool] = True
    """Whether a step, and the evaluation of a batch, can be one CUDA graph; False where one asks the host, by `.item()`
    or an `if` on values."""

    @abstractmethod
    def data(self) -> dict[str, Split]:
        """The splits "train", "validation" and "test", on the CPU; the same at every call. Called before `model`.

        "validation" can be left out where nothing is chosen by it.
        """

    @abstractmethod
    def model(self) -> nn.Module:
        """A new model, initialised by torch's random numbers, which the run's seed decides."""

    @abstractmethod
    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """What is minimised: the mean over a batch."""

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Further means over a batch, by name."""
        return {}

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """What is kept of the means over a whole split, which may be more than them: exp(loss), for one."""
        return means

    def augment(self, x: Tensor) -> Tensor:
        """Training inputs, altered at random; on the accelerator."""
        return x

    def schedule(self, now: Moment) -> dict[str, float]:
        """By which factors of their first values settings are changed for the coming epoch or step, as {"lr": 0.1}."""
        return {}

    def begin(self, model: nn.Module) -> None:  # noqa: B027 - most need nothing
        """Do what a model needs before each pass over data: a recurrent one forgets the last."""
