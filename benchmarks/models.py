"""Two models to measure whole training steps with: the CIFAR ResNet18 and GPT-2 of 124 M parameters."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions of 3 × 3 and what goes around them."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.around = nn.Identity()
        if stride != 1 or width != out:
            self.around = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        """Of a batch of feature maps."""
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.around(x))


class ResNet18(nn.Module):
    """For images of 32 × 32: 62 tensors, 11.17 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        blocks, width = [], 64
        for i, out in enumerate((64, 128, 256, 512)):
            for j in range(2):
                blocks.append(Block(width, out, 2 if i and not j else 1))
                width = out
        self.conv = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(64)
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Of a batch of images."""
        return self.head(self.blocks(functional.relu(self.bn(self.conv(x)))).mean((2, 3)))


class Layer(nn.Module):
    """Attention and a two-layer network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Of a batch of sequences."""
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(functional.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    """GPT-2 with tied embeddings: 148 tensors, 124 M parameters."""

    def __init__(self, width: int = 768, layers: int = 12, heads: int = 12, context: int = 1024) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50257, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.ln = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Of a batch of token numbers, the scores of the next ones."""
        h = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return self.ln(self.layers(h)) @ self.tokens.weight.t()
