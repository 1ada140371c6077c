"""CIFAR-100 as in the paper, all training images and nothing to choose by; VGG19."""

from torch import nn

from ..models import VGG19
from .images import Cifar


class Cifar100Paper(Cifar):
    """CIFAR-100, all 50,000 images to train; VGG19; crops (4 pixels) and flips; Adam's rate constant."""

    set_name = "cifar100"
    paper = True

    def model(self) -> nn.Module:
        """VGG19."""
        return VGG19(self.classes)
