"""The models of the paper's experiments, for small inputs."""

from .resnet import ResNet18

__all__ = ["ResNet18"]
