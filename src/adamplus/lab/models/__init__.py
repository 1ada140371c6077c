"""The models of the paper's experiments, for small inputs."""

from .acoustic import AcousticModel
from .language import LanguageModel
from .resnet import ResNet18
from .vgg import VGG19

__all__ = ["VGG19", "AcousticModel", "LanguageModel", "ResNet18"]
