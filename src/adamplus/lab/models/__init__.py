"""The models of the paper's experiments, for small inputs, a small GPT, and augmentation of images."""

from .acoustic import AcousticModel
from .augment import crop_and_flip
from .language import LanguageModel
from .recurrent import StackedLSTM, forget
from .resnet import ResNet18
from .transformer import GPT
from .vgg import VGG19

__all__ = ["GPT", "VGG19", "AcousticModel", "LanguageModel", "ResNet18", "StackedLSTM", "crop_and_flip", "forget"]
