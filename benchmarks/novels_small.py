"""The task `novels-gpt` so small that a CPU core trains a run in half a minute (results/spectral has the command)."""

from collections.abc import Mapping
from typing import ClassVar

from adamplus.lab.tasks.novels import NovelsGPT


class NovelsSmall(NovelsGPT):
    """Bytes of English novels, GPT 2 × 128; one pass, 1,200 steps of 8 windows of 64 bytes, clip 1; nats a byte."""

    epochs = 4
    epochs_per_pass = 4
    batch = 8
    evaluation_rows: ClassVar[int | None] = 64

    windows: ClassVar[Mapping[str, int]] = {"train": 9_600, "validation": 512, "test": 512}
    length: ClassVar[int] = 64
    shape: ClassVar[Mapping[str, int]] = {"words": 256, "width": 128, "layers": 2, "heads": 4}
