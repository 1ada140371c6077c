"""A small GPT, which predicts the next word."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Layer(nn.Module):
    """Causal attention and two linear layers, each after a LayerNorm and with a residual connection."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads: int = heads
        self.dropout: float = dropout
        self.norm1: nn.Module = nn.LayerNorm(width)
        self.inputs: nn.Module = nn.Linear(width, 3 * width)
        self.mixed: nn.Linear = nn.Linear(width, width)
        self.norm2: nn.Module = nn.LayerNorm(width)
        self.wide: nn.Module = nn.Linear(width, 4 * width)
        self.narrow: nn.Linear = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors [rows, length, width] to vectors of the same shape."""
        query, key, value = self.inputs(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self._dropped(self.mixed(seen.transpose(1, 2).flatten(-2)))
        return x + self._dropped(self.narrow(functional.gelu(self.wide(self.norm2(x)))))

    def _dropped(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)


class GPT(nn.Module):
    """A GPT as GPT-2: embeddings of words and positions, layers, and an output that is tied to the word embedding.

    With 33,278 words, windows of 256 and the defaults it has 23,524,608 parameters.
    """

    def __init__(
        self,
        words: int,
        length: int,
        *,
        width: int = 384,
        layers: int = 6,
        heads: int = 6,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.words: nn.Embedding = nn.Embedding(words, width)
        self.places: nn.Embedding = nn.Embedding(length, width)
        self.dropout: nn.Module = nn.Dropout(dropout)
        self.layers: nn.Sequential = nn.Sequential(*(Layer(width, heads, dropout) for _ in range(layers)))
        self.norm: nn.Module = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:  # smaller for layers that add to the residual sum, so that it does not grow
                adds = name.endswith(("mixed.weight", "narrow.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if adds else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def get_output_embeddings(self) -> nn.Module:
        """The module whose weight is the output layer's, as models of transformers name it."""
        return self.words

    def forward(self, x: Tensor) -> Tensor:
        """Words [rows, length], of any integer type, to scores of the next word [rows, length, words]."""
        places = self.places(torch.arange(x.shape[1], device=x.device))
        return functional.linear(self.norm(self.layers(self.dropout(self.words(x.long()) + places))), self.words.weight)
