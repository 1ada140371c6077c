"""Simonyan and Zisserman's network of 19 layers with BatchNorm, for images of 32 × 32."""

from torch import Tensor, nn

WIDTHS = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Channels, and how many convolutions of that many, between two poolings."""


class VGG19(nn.Module):
    """Sixteen convolutions and one linear layer, as it is usual for CIFAR. With 100 classes: 20,081,188 parameters.

    The two hidden linear layers of the original are for images of 224 × 224. Convolutions have no bias: BatchNorm
    subtracts it at once.
    """

    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3
        for out, count in WIDTHS:
            for _ in range(count):
                layers += [nn.Conv2d(width, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
                width = out
            layers.append(nn.MaxPool2d(2))
        self.features: nn.Module = nn.Sequential(*layers)
        self.head: nn.Module = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Of a batch of images."""
        return self.head(self.features(x).flatten(1))
