"""The task `novels-gpt` at width 1,024: do learning rates transfer over width? (results/spectral has the command)."""

from collections.abc import Mapping
from typing import ClassVar

from adamplus.lab.tasks.novels import NovelsGPT


class Novels1024(NovelsGPT):
    """Bytes of English novels, GPT 8 × 1,024 (101.6 M parameters); else as novels-gpt."""

    shape: ClassVar[Mapping[str, int]] = {**NovelsGPT.shape, "width": 1024, "heads": 16}
