"""Alignment of recorded sentences: features, tied states and a state for every frame."""

from .alignments import AlignedCorpus, AlignedUtterance, read_aligned
from .features import FRAMES, chunks, deltas, normalized
from .states import Sentence, Tying, sentence
from .viterbi import best_path, flat_start

__all__ = [
    "FRAMES",
    "AlignedCorpus",
    "AlignedUtterance",
    "Sentence",
    "Tying",
    "best_path",
    "chunks",
    "deltas",
    "flat_start",
    "normalized",
    "read_aligned",
    "sentence",
]
