"""What the tasks on speech share: windows of utterances, the acoustic model, loss and schedule."""

from abc import abstractmethod
from typing import ClassVar, Literal

from torch import Tensor, nn

from ..models import AcousticModel
from .schedules import Experiment, annealings
from .task import Moment, Split


class Speech(Experiment):
    """Classification of every frame of speech by its phonetic state; a row is a window of 21 frames."""

    epochs = 20
    batch = 256
    metric = "loss"
    better: ClassVar[Literal["lower", "higher"]] = "lower"
    stepwise = True

    layers: ClassVar[int] = 6
    width: ClassVar[int] = 512
    projection: ClassVar[int] = 256

    @abstractmethod
    def data(self) -> dict[str, Split]:
        """Windows of features [windows, frames, values], and their states [windows, frames]."""

    @property
    @abstractmethod
    def states(self) -> int:
        """Number of states."""

    def model(self) -> nn.Module:
        """Six bidirectional LSTM layers of 512 in each direction, and a projection to 256."""
        features = self.data()["train"][0].shape[-1]
        return AcousticModel(features, self.states, layers=self.layers, width=self.width, projection=self.projection)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy per frame."""
        return nn.functional.cross_entropy(outputs.flatten(0, 1), y.flatten())

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The fraction of frames with a wrong state."""
        return {"frame_error": (outputs.argmax(-1) != y).float().mean()}

    def schedule(self, now: Moment) -> dict[str, float]:
        """The learning rate times √½ before each of the last 10 of 20 epochs.

        A shorter run has the same ten annealings, between steps.
        """
        if not self.is_scheduled(now.optimizer):
            return {}
        return {"lr": 0.5 ** (annealings(now.progress) / 2)}
