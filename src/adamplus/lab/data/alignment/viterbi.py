"""Alignment: assigning every frame to one of a sentence's states, in their order."""

import math

import torch
from torch import Tensor

from .states import STATES, Sentence

STAY, STEP, SKIP = 0, 1, 1 + STATES
"""Places between the states of two consecutive frames: the same, the next, or the one after a skipped pause."""


def flat_start(one: Sentence, frames: int) -> Tensor:
    """A place for each frame that gives every mandatory state the same number of frames.

    Example:
        >>> from adamplus.lab.data.alignment import Sentence, flat_start
        >>> flat_start(Sentence(((None, "A", None),) * 3, frozenset()), 7)
        tensor([0, 0, 0, 1, 1, 2, 2])
    """
    places = torch.tensor(one.mandatory())
    return places[torch.arange(frames) * len(places) // frames]


def best_path(one: Sentence, scores: Tensor) -> Tensor:
    """The path through the sentence with the largest sum of scores [frames, places], by Viterbi's algorithm.

    A path begins in the first place and ends in the last. From one frame to the next it stays, moves on by one, or
    skips a pause.
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
    """The sum of the scores along a path."""
    return float(scores.gather(1, path[:, None]).sum())


def _landings(one: Sentence) -> Tensor:
    """Whether each place comes right after a pause that may be skipped."""
    after = [place - 1 in one.optional and place not in one.optional for place in range(len(one.contexts))]
    return torch.tensor(after)


def _shifted(best: Tensor, by: int) -> Tensor:
    """The values shifted by some places, so that each place has the value of an earlier one."""
    beyond = best.new_full((by,), -math.inf)
    return torch.cat([beyond, best])[: len(best)]
