"""The images of `blobs.py` with a deterministic model that treats each row independently."""

from blobs import Blobs
from torch import Tensor, nn


class PlainBlobs(Blobs):
    """A linear model of the images."""

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))

    def augment(self, x: Tensor) -> Tensor:
        return x
