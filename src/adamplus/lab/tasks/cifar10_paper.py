"""CIFAR-10 as in the paper, all training images and nothing to choose by; ResNet18."""

from torch import nn

from ..models import ResNet18
from .images import Cifar


class Cifar10Paper(Cifar):
    """CIFAR-10, all 50,000 images to train; ResNet18; crops (4 pixels) and flips; Adam's rate constant."""

    set_name = "cifar10"
    paper = True

    def model(self) -> nn.Module:
        """ResNet18."""
        return ResNet18(self.classes)
