"""LSTM layers that keep their state between calls and whose dropout is reproducible."""

import torch
from torch import Tensor, nn


class StackedLSTM(nn.Module):
    """`nn.LSTM(…, batch_first=True)` with dropout between layers by torch's own random numbers.

    The state of every stream is kept between calls, so the windows of a text must come in order.

    On CUDA, `nn.LSTM` draws its dropout from a state of cuDNN that is seeded once per process. A run's seed does not
    reach it, so the same run would give other numbers after a resumption or after another run.
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
        """Features [streams, length, features] to outputs [streams, length, width]."""
        # copies: the backward pass needs the initial states, which are overwritten below
        hidden, cell = self.hidden.clone(), self.cell.clone()
        for i, layer in enumerate(self.layers):
            x, (h, c) = layer(self.dropout(x) if i else x, (hidden[i : i + 1], cell[i : i + 1]))
            # in place, so that a captured graph finds them at the same address
            self.hidden[i].copy_(h[0].detach())
            self.cell[i].copy_(c[0].detach())
        return x

    def forget(self) -> None:
        """Reset the state, to start a new text."""
        self.hidden.zero_()
        self.cell.zero_()


def forget(model: nn.Module) -> None:
    """Reset the state of every `StackedLSTM` in a model, which may be wrapped by DDP or torch.compile."""
    for module in model.modules():
        if isinstance(module, StackedLSTM):
            module.forget()
