"""The task `novels-gpt` at width 256: do learning rates transfer over width? (results/spectral has the command)."""

from collections.abc import Mapping
from typing import ClassVar

from adamplus.lab.tasks.novels import NovelsGPT


class Novels256(NovelsGPT):
    """Bytes of English novels, GPT 8 × 256 (6.5 M parameters); else as novels-gpt."""

    shape: ClassVar[Mapping[str, int]] = {**NovelsGPT.shape, "width": 256, "heads": 4}
