"""He et al.'s residual network of 18 layers, for images of 32 × 32."""

from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions of 3 × 3 and a shortcut around them."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1: nn.Module = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1: nn.Module = nn.BatchNorm2d(out)
        self.conv2: nn.Module = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2: nn.Module = nn.BatchNorm2d(out)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or width != out:
            self.around = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps to feature maps."""
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.around(x))


class ResNet18(nn.Module):
    """ResNet18 for small images; with 10 classes it has 62 tensors and 11.17 M parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        blocks, width = [], 64
        for i, out in enumerate((64, 128, 256, 512)):
            for j in range(2):
                blocks.append(Block(width, out, 2 if i and not j else 1))
                width = out
        self.conv: nn.Module = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn: nn.Module = nn.BatchNorm2d(64)
        self.blocks: nn.Module = nn.Sequential(*blocks)
        self.head: nn.Module = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images [rows, 3, height, width] to scores [rows, classes]."""
        return self.head(self.blocks(functional.relu(self.bn(self.conv(x)))).mean((2, 3)))
