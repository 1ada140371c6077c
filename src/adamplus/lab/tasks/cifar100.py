"""CIFAR-100 with a tenth of its training images held out to choose settings by; VGG19."""

from torch import nn

from ..models import VGG19
from .images import Cifar


class Cifar100(Cifar):
    """CIFAR-100, 45,000 images to train and 5,000 to choose by; VGG19; crops (4 pixels) and flips."""

    set_name = "cifar100"

    def model(self) -> nn.Module:
        """VGG19."""
        return VGG19(self.classes)
