"""CIFAR-10 with a tenth of its training images held out to choose settings by; ResNet18."""

from torch import nn

from ..models import ResNet18
from .images import Cifar


class Cifar10(Cifar):
    """CIFAR-10, 45,000 images to train and 5,000 to choose by; ResNet18; crops (4 pixels) and flips."""

    set_name = "cifar10"

    def model(self) -> nn.Module:
        """ResNet18."""
        return ResNet18(self.classes)
