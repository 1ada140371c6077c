"""From recorded sentences to a state for every frame: features, tied states, alignment."""

from .alignments import Aligned, Spoken, aligned
from .features import FRAMES, chunks, deltas, normalized
from .states import Sentence, Tying, sentence
from .viterbi import flat_start, realigned

__all__ = [
    "FRAMES",
    "Aligned",
    "Sentence",
    "Spoken",
    "Tying",
    "aligned",
    "chunks",
    "deltas",
    "flat_start",
    "normalized",
    "realigned",
    "sentence",
]
