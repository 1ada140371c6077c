"""GPT-2 of 124 M parameters, to measure whole training steps with."""

import torch
from torch import Tensor, nn
from torch.nn import functional


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
