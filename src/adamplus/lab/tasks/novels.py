"""100 English Novels with GPTs of their bytes: one run is one pass, and no byte is seen twice."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..data import data_root, novels
from ..errors import InputError
from ..models import GPT
from .language import NextWord
from .schedules import warm_up_and_cosine
from .task import Moment, Split


class NovelsGPT(NextWord):
    """Bytes of English novels, GPT 8 × 512 (tied, no dropout); one pass, 1,500 steps of 48 × 512, clip 1; nats a byte.

    A pass has a fixed number of windows, which are spread evenly over the 90 training novels and do not overlap, so it
    sees 36.9 of 71.1 million bytes once. It is divided into ten epochs of 150 steps, between which the model is
    evaluated, on windows that are spread in the same way over the five validation and the five test novels.
    """

    epochs = 10
    epochs_per_pass = 10
    batch = 48
    metric = "loss"
    clip: ClassVar[float | None] = 1.0
    train_rows: ClassVar[int | None] = 0
    stepwise = True

    windows: ClassVar[Mapping[str, int]] = {"train": 72_000, "validation": 960, "test": 960}
    """Rows of each split."""
    length: ClassVar[int] = 512
    """Bytes of a window."""
    shape: ClassVar[Mapping[str, int]] = {"words": 256, "width": 512, "layers": 8, "heads": 8}
    """Arguments of the model."""
    warm_up: ClassVar[float] = 1 / 15
    """The fraction of the run in which the learning rate rises: 100 steps."""

    def data(self) -> dict[str, Split]:
        """Windows of the bytes of three groups of novels, with one byte for each element."""
        return {name: _windows(data_root(), name, rows, self.length) for name, rows in self.windows.items()}

    def model(self) -> nn.Module:
        """A GPT of 25,613,312 parameters."""
        return GPT(length=self.length, **self.shape, dropout=0.0)

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """The loss, in nats per byte."""
        return means

    def schedule(self, now: Moment) -> dict[str, float]:
        """A linear warm-up over 100 steps, then half a cosine down to 2 %; the same for every optimizer."""
        return {"lr": warm_up_and_cosine(now.progress, self.warm_up, 0.02)}


class GPT2(NovelsGPT):
    """GPT-2's small size (12 × 768, 50,304 tokens, 124,475,904 parameters), 100 steps of 16 × 1,024: speed, memory.

    Its tokens are the bytes of the novels, and most of its vocabulary never occurs. Compare steps per second and
    memory, and not losses.
    """

    epochs = 1
    epochs_per_pass = 1
    batch = 16
    evaluation_rows: ClassVar[int | None] = 16  # four batches of scores would take more memory than training

    windows: ClassVar[Mapping[str, int]] = {"train": 1_600, "validation": 64, "test": 64}
    length: ClassVar[int] = 1024
    # GPT-2's 50,257 tokens are rounded up to a multiple of 128, as is usual for matrix products.
    shape: ClassVar[Mapping[str, int]] = {"words": 50_304, "width": 768, "layers": 12, "heads": 12}


@cache
def _corpus(root: Path) -> novels.Corpus:
    return novels.read(root)


@cache
def _windows(root: Path, split: str, rows: int, length: int) -> Split:
    """Bytes of a split and the bytes after them, [rows, length], in windows that are spread evenly over the text."""
    text: Tensor = getattr(_corpus(root), split)
    if len(text) <= rows * length:
        raise InputError(
            f"the novels in {root}: {len(text):,} bytes of {split} text are too few for {rows:,} windows of {length}"
        )
    starts = torch.arange(rows) * (len(text) - length - 1) // max(rows - 1, 1)
    return text[:-1].unfold(0, length, 1)[starts], text[1:].unfold(0, length, 1)[starts]
