"""Alignment: which of a sentence's states, in their order, each frame belongs to."""

import math

import torch
from torch import Tensor

from .states import STATES, Sentence

STAY, STEP, SKIP = 0, 1, 1 + STATES
"""How far a frame's state may be from the one before: beyond a pause that is left out, too."""


def flat_start(one: Sentence, frames: int) -> Tensor:
    """Every state that must be there for as long as any other: a place in the sentence for each frame.

    Example:
        >>> from adamplus.lab.data.alignment import Sentence, flat_start
        >>> flat_start(Sentence(((None, "A", None),) * 3, frozenset()), 7)
        tensor([0, 0, 0, 1, 1, 2, 2])
    """
    places = torch.tensor(one.mandatory())
    return places[torch.arange(frames) * len(places) // frames]


def best_path(one: Sentence, scores: Tensor) -> Tensor:
    """Viterbi's: of all paths through the sentence, the one with the largest sum of scores [frames, places].

    A path begins in the first place and ends in the last; from one frame to the next it stays, goes on by one, or
    leaves out a pause.
    """
    frames, places = scores.shape
    if frames < len(one.mandatory()):
        raise ValueError(f"{frames} frames are too few for a sentence of {len(one.mandatory())} states")
    lands = _landings(one)
    best = torch.full((places,), -math.inf, dtype=scores.dtype)
    best[0] = scores[0, 0]
    came = torch.zeros(frames, places, dtype=torch.int64)
    for frame in range(1, frames):
        step, skip = _shifted(best, STEP), torch.where(lands, _shifted(best, SKIP), -math.inf)
        best, came[frame] = torch.stack([best, step, skip]).max(0)
        best = best + scores[frame]
    place, path = places - 1, []
    for frame in range(frames - 1, -1, -1):
        path.append(place)
        place -= (STAY, STEP, SKIP)[int(came[frame, place])]
    return torch.tensor(path[::-1])


def path_score(scores: Tensor, path: Tensor) -> float:
    """The sum of a path's scores."""
    return float(scores.gather(1, path[:, None]).sum())


def _landings(one: Sentence) -> Tensor:
    """Places right after a pause that may be left out."""
    after = [place - 1 in one.optional and place not in one.optional for place in range(len(one.contexts))]
    return torch.tensor(after)


def _shifted(best: Tensor, by: int) -> Tensor:
    """What a place has that lies so far before."""
    beyond = best.new_full((by,), -math.inf)
    return torch.cat([beyond, best])[: len(best)]
