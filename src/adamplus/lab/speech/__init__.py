"""From recorded sentences to a state for every frame: features, tied states, alignment."""

from ._aligned import Aligned, aligned
from ._alignment import flat_start, realigned
from ._features import FRAMES, chunks, deltas, normalized
from ._states import Sentence, Tying, sentence

__all__ = [
    "FRAMES",
    "Aligned",
    "Sentence",
    "Tying",
    "aligned",
    "chunks",
    "deltas",
    "flat_start",
    "normalized",
    "realigned",
    "sentence",
]
