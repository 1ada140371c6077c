"""What a model sees of speech: values, how they change, and how that changes; in pieces of one length."""

import torch
from torch import Tensor

REACH = 2
"""Frames to either side that a change is taken over."""
FRAMES = 21
"""Of a piece, as in the paper."""


def deltas(features: Tensor) -> Tensor:
    """Features, their slope over two frames to either side, and the slope of that: [frames, 3 × values].

    Example:
        >>> from adamplus.lab.data.alignment import deltas
        >>> deltas(torch.arange(9.0)[:, None])[4]
        tensor([4., 1., 0.])
    """
    first = _slope(features)
    return torch.cat([features, first, _slope(first)], 1)


def normalized(features: Tensor) -> Tensor:
    """Of one utterance: each value less its mean, over its standard deviation, so that speakers are alike."""
    return (features - features.mean(0)) / features.std(0, correction=0).clamp(min=1e-3)


def chunks(tensor: Tensor, frames: int = FRAMES) -> Tensor:
    """Consecutive pieces that do not overlap; what is left at the end is too short to be one."""
    count = len(tensor) // frames
    return tensor[: count * frames].unflatten(0, (count, frames))


def _slope(features: Tensor) -> Tensor:
    """The regression's; the first and the last frame go on beyond the ends."""
    padded = torch.cat([features[:1].expand(REACH, -1), features, features[-1:].expand(REACH, -1)])
    frames = len(features)

    def at(shift: int) -> Tensor:
        return padded[REACH + shift : REACH + shift + frames]

    total = sum(((n * (at(n) - at(-n))) for n in range(1, REACH + 1)), torch.zeros_like(features))
    return total / (2 * sum(n * n for n in range(1, REACH + 1)))
