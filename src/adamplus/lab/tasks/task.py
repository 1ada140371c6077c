"""The base class of tasks: data, model, loss, metrics and budget."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

from torch import Tensor, nn

Split = tuple[Tensor, Tensor]
"""Inputs and targets; row i of the targets belongs to row i of the inputs."""


class Moment(NamedTuple):
    """The position of a run when the schedule is called."""

    epoch: int
    """The epoch that begins or runs: 0, 1, …"""
    epochs: int
    """Epochs of the whole run."""
    optimizer: str
    """The optimizer's registered name, or the path of its file."""
    history: Sequence[Mapping[str, float]]
    """Metrics of the epochs before."""
    part: float = 0.0
    """The fraction of the epoch that is done, in [0, 1); above 0 only in a task with `stepwise`."""

    @property
    def progress(self) -> float:
        """The fraction of the whole run that is done, in [0, 1)."""
        return (self.epoch + self.part) / self.epochs


class Task(ABC):
    """A task that optimizers are compared on.

    A file defines one task; the first line of its docstring describes it in reports.
    """

    epochs: ClassVar[int] = 20
    """Passes over the training data, unless `epochs_per_pass` says otherwise."""
    epochs_per_pass: ClassVar[int] = 1
    """Epochs that a pass over the training rows is divided into.

    A task whose rows are seen once has as many as `epochs`: metrics are measured and checkpoints written between them.
    Rows that are left over are not seen in that pass.
    """
    batch: ClassVar[int] = 64
    """Rows of the data per step."""
    metric: ClassVar[str] = "loss"
    """The metric that tuning compares on validation data and reports show on test data."""
    better: ClassVar[Literal["lower", "higher"]] = "lower"
    """Whether lower or higher values of the metric are better."""
    target: ClassVar[float | None] = None
    """The time until the metric reaches this value on test data is reported, if it is given."""
    ordered: ClassVar[bool] = False
    """Whether rows are visited in order (a stream of text), not in a new random order each epoch."""
    stepwise: ClassVar[bool] = False
    """Whether the schedule is called before each step (a warm-up, a cosine), not only before each epoch."""
    clip: ClassVar[float | None] = None
    """The norm that gradients are clipped to. Default: no clipping."""
    train_rows: ClassVar[int | None] = None
    """Number of training rows that are evaluated after an epoch. Default: the number of test rows."""

    evaluation_rows: ClassVar[int | None] = None
    """Rows per batch of an evaluation. Default: four times `batch`."""
    capture: ClassVar[bool] = True
    """Whether a step, and the evaluation of a batch, can be one CUDA graph.

    Set it to False if either needs values on the host, by `.item()` or an `if` on values.
    """

    @abstractmethod
    def data(self) -> dict[str, Split]:
        """The splits "train", "validation" and "test", as CPU tensors that are the same at every call.

        It is called before `model`. "validation" may be left out if nothing is tuned.
        """

    @abstractmethod
    def model(self) -> nn.Module:
        """A new model, initialized by torch's random numbers, which the run's seed determines."""

    @abstractmethod
    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss to minimize: a mean over the batch."""

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Further means over the batch, by name."""
        return {}

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """The metrics of a split, from the means over the whole split: perplexity, exp(loss), for example."""
        return means

    def augment(self, x: Tensor) -> Tensor:
        """Training inputs with random changes, made on the accelerator."""
        return x

    def schedule(self, now: Moment) -> dict[str, float]:
        """Factors of the initial settings for the coming epoch or step, as {"lr": 0.1}."""
        return {}

    def begin(self, model: nn.Module) -> None:  # noqa: B027 - most tasks need nothing
        """Prepare the model for a pass over data; called before each: a recurrent model forgets the last text."""
