"""Artificial speech, sequences of phones in noise, with a recurrent model that classifies every frame."""

from functools import cache
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from .task import Split, Task

PHONES, STATES = 12, 3
CLASSES = PHONES * STATES
FRAMES, FEATURES = 21, 16
ROWS, SPEAKERS = {"train": 1280, "validation": 320, "test": 320}, {"train": 40, "validation": 10, "test": 10}
FOLLOWERS = 3  # phones that may follow a phone
SPEAKER, NOISE = 0.7, 1.0  # standard deviations; that of the states' spectra is 1
WIDTH, PROJECTION = 32, 24


class Model(nn.Module):
    """Two bidirectional LSTM layers, a projection, and an output layer with a score for every state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm: nn.LSTM = nn.LSTM(FEATURES, WIDTH, 2, batch_first=True, bidirectional=True)
        self.projection: nn.Linear = nn.Linear(2 * WIDTH, PROJECTION)
        self.output: nn.Linear = nn.Linear(PROJECTION, CLASSES)
        for layer in (self.projection, self.output):
            nn.init.orthogonal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Features [rows, frames, features] to scores [rows, frames, classes]."""
        return self.output(self.projection(self.lstm(x)[0]))


class Tones(Task):
    """States of phones in made-up speech (windows of 21 frames, 36 states), a bidirectional LSTM of two layers.

    It has the shape of the paper's speech experiment: every frame has a target, and the frames around it help.
    """

    epochs = 6
    batch = 64
    metric = "frame_error"
    better: ClassVar[Literal["lower", "higher"]] = "lower"
    target: ClassVar[float | None] = 0.2

    def data(self) -> dict[str, Split]:
        """Windows of speech; every split has its own speakers."""
        return _splits()

    def model(self) -> nn.Module:
        """Two bidirectional LSTM layers of 32 and a projection to 24."""
        return Model()

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy per frame."""
        return nn.functional.cross_entropy(outputs.flatten(0, 1), y.flatten())

    def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The fraction of frames with a wrong state."""
        return {"frame_error": (outputs.argmax(-1) != y).float().mean()}


@cache
def _splits() -> dict[str, Split]:
    generator = torch.Generator().manual_seed(2011)  # the same data for every seed of a run
    spectra = torch.randn(CLASSES, FEATURES, generator=generator)
    leave = 1 / (1.5 + 2.5 * torch.rand(CLASSES, generator=generator))  # states last 1.5 to 4 frames, on average
    followers = torch.stack([torch.randperm(PHONES, generator=generator)[:FOLLOWERS] for _ in range(PHONES)])
    splits = {}
    for name, rows in ROWS.items():
        state = torch.randint(CLASSES, (rows,), generator=generator)
        states = []
        for _ in range(FRAMES):
            states.append(state)
            choice = torch.randint(FOLLOWERS, (rows,), generator=generator)
            phone = followers[state // STATES, choice]
            after = torch.where(state % STATES == STATES - 1, phone * STATES, state + 1)
            state = torch.where(torch.rand(rows, generator=generator) < leave[state], after, state)
        y = torch.stack(states, 1)
        voices = SPEAKER * torch.randn(SPEAKERS[name], 1, FEATURES, generator=generator)
        voice = voices[torch.randint(SPEAKERS[name], (rows,), generator=generator)]
        noise = NOISE * torch.randn(rows, FRAMES, FEATURES, generator=generator)
        splits[name] = (spectra[y] + voice + noise, y)
    return splits
