"""LSTM layers that go on where they ended, and whose dropout repeats."""

import torch
from torch import Tensor, nn


class StackedLSTM(nn.Module):
    """What `nn.LSTM(…, batch_first=True)` computes, with dropout between layers by torch's own random numbers.

    What the layers remember of so many `streams` is kept over calls, so the windows of a text have to come in their
    order.

    On CUDA, `nn.LSTM` draws its dropout from a state of cuDNN's that is seeded once a process: no seed that a run sets
    reaches it, and the same run would give other numbers after a resumption or after another run.
    """

    hidden: Tensor
    cell: Tensor

    def __init__(self, features: int, width: int, layers: int, streams: int, dropout: float) -> None:
        super().__init__()
        widths = [features, *[width] * (layers - 1)]
        self.layers: nn.ModuleList = nn.ModuleList(nn.LSTM(inputs, width, batch_first=True) for inputs in widths)
        self.dropout: nn.Module = nn.Dropout(dropout)
        for name in ("hidden", "cell"):
            self.register_buffer(name, torch.zeros(layers, streams, width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """From [streams, length, features] to [streams, length, width]."""
        # copies: the backward pass needs what the layers began with, which is overwritten below
        hidden, cell = self.hidden.clone(), self.cell.clone()
        for i, layer in enumerate(self.layers):
            x, (h, c) = layer(self.dropout(x) if i else x, (hidden[i : i + 1], cell[i : i + 1]))
            # in place, so that a captured graph finds them where it has left them
            self.hidden[i].copy_(h[0].detach())
            self.cell[i].copy_(c[0].detach())
        return x

    def forget(self) -> None:
        """Start a new text."""
        self.hidden.zero_()
        self.cell.zero_()


def forget(model: nn.Module) -> None:
    """Let all such layers of a model start a new text; DDP and torch.compile may be around it."""
    for module in model.modules():
        if isinstance(module, StackedLSTM):
            module.forget()
