"""Simonyan and Zisserman's network of 19 layers with BatchNorm, for images of 32 × 32."""

from torch import Tensor, nn

WIDTHS = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Channels and number of convolutions before each pooling."""


class VGG19(nn.Module):
    """Sixteen convolutions and one linear layer, as usual for CIFAR; 20,081,188 parameters with 100 classes.

    The two hidden linear layers of the original are for images of 224 × 224. Convolutions have no bias, because
    BatchNorm would subtract it.
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
        """Images [rows, 3, 32, 32] to scores [rows, classes]."""
        return self.head(self.features(x).flatten(1))
