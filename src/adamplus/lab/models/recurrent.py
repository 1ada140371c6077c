"""LSTM layers whose dropout repeats."""

import torch
from torch import Tensor, nn


class StackedLSTM(nn.Module):
    """What `nn.LSTM(…, batch_first=True)` computes, with dropout between layers by torch's own random numbers.

    On CUDA, `nn.LSTM` draws its dropout from a state of cuDNN's that is seeded once a process: no seed that a run sets
    reaches it, and the same run would give other numbers after a resumption or after another run.
    """

    def __init__(self, features: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        widths = [features, *[width] * (layers - 1)]
        self.layers: nn.ModuleList = nn.ModuleList(nn.LSTM(inputs, width, batch_first=True) for inputs in widths)
        self.dropout: nn.Module = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """From [rows, length, features] and a memory of [layers, rows, width] twice: outputs, and the memory then."""
        memories: list[tuple[Tensor, Tensor]] = []
        for i, layer in enumerate(self.layers):
            x, after = layer(self.dropout(x) if i else x, (memory[0][i : i + 1], memory[1][i : i + 1]))
            memories.append(after)
        hidden, cell = (torch.cat(states) for states in zip(*memories, strict=True))
        return x, (hidden, cell)
