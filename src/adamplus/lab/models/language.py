"""A recurrent language model: an embedding, LSTM layers and an output layer."""

from torch import Tensor, nn

from .recurrent import StackedLSTM


class LanguageModel(nn.Module):
    """An LSTM that predicts the next word in several streams of text at once.

    The layers remember the window before, so the windows of a text must come in order. With 33,278 words and a width
    of 650, it has 50,065,078 parameters, or 28,434,378 if embedding and output share their weights (`tied`).
    """

    def __init__(
        self,
        words: int,
        *,
        streams: int = 20,
        width: int = 650,
        layers: int = 2,
        dropout: float = 0.5,
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.embedding: nn.Embedding = nn.Embedding(words, width)
        self.dropout: nn.Module = nn.Dropout(dropout)
        self.lstm: StackedLSTM = StackedLSTM(width, width, layers, streams, dropout)
        self.output: nn.Linear = nn.Linear(width, words)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)  # usual for such models since Zaremba et al. 2014
        nn.init.uniform_(self.output.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        """Words [windows, streams, length] to scores of the next word [windows, streams, length, words]."""
        windows, streams, length = x.shape
        in_time = x.transpose(0, 1).reshape(streams, windows * length)
        outputs = self.lstm(self.dropout(self.embedding(in_time)))
        scores = self.output(self.dropout(outputs))
        return scores.unflatten(1, (windows, length)).transpose(0, 1)
