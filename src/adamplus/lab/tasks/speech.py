"""What the tasks on speech share: pieces of utterances, the acoustic model, loss and schedule."""

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from ..models import AcousticModel
from .schedules import annealings, is_scheduled
from .task import Moment, Split, Task


class Speech(Task):
    """Which state each frame of a piece of speech belongs to; a row is a piece of 21 frames."""

    epochs = 20
    batch = 256
    metric = "loss"
    better = "lower"
    stepwise = True

    paper: ClassVar[bool] = False
    """Whether all training speech is trained on, with nothing held out to choose by, and Adam's rates stay."""
    layers: ClassVar[int] = 6
    width: ClassVar[int] = 512
    projection: ClassVar[int] = 256

    @abstractmethod
    def data(self) -> dict[str, Split]:
        """Pieces of features [pieces, frames, values], and their states [pieces, frames]."""

    @property
    @abstractmethod
    def states(self) -> int:
        """How many states there are."""

    def model(self) -> nn.Module:
        """Six bidirectional layers of 512 in each direction, and a projection to 256."""
        features = self.data()["train"][0].shape[-1]
        return AcousticModel(features, self.states, layers=self.layers, width=self.width, projection=self.projection)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy of a frame."""
        return nn.functional.cross_entropy(outputs.flatten(0, 1), y.flatten())

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The part of the frames whose state is mistaken."""
        return {"frame_error": (outputs.argmax(-1) != y).float().mean()}

    def schedule(self, now: Moment) -> dict[str, float]:
        """The rate times √½ before each epoch of the second half, of 20; as often, between steps, in a shorter run."""
        if not is_scheduled(now.optimizer, self.paper):
            return {}
        return {"lr": 0.5 ** (annealings(now.progress) / 2)}
