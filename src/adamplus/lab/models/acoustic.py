"""A recurrent acoustic model, which classifies every frame of speech by its phonetic state."""

from torch import Tensor, nn


class AcousticModel(nn.Module):
    """Bidirectional LSTM layers, a linear projection, and an output layer with a score for every state.

    With the paper's 260 features (FMLLR 40, i-vector 100, 40 log-mel values with two deltas) and 32,000 states:
    43,154,944 parameters, 165 MB.
    """

    def __init__(self, features: int, states: int, *, layers: int = 6, width: int = 512, projection: int = 256) -> None:
        super().__init__()
        self.lstm: nn.LSTM = nn.LSTM(features, width, layers, batch_first=True, bidirectional=True)
        self.projection: nn.Linear = nn.Linear(2 * width, projection)
        self.output: nn.Linear = nn.Linear(projection, states)

    def forward(self, x: Tensor) -> Tensor:
        """Features [rows, frames, features] of any precision to scores [rows, frames, states]."""
        return self.output(self.projection(self.lstm(x.to(self.output.weight.dtype))[0]))
