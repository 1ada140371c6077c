"""Features of speech: values, their deltas and the deltas of these, in windows of one length."""

import torch
from torch import Tensor

REACH = 2
"""Frames to either side that a delta is computed from."""
FRAMES = 21
"""Frames of a window, as in the paper."""


def deltas(features: Tensor) -> Tensor:
    """Features, their deltas over two frames to either side, and the deltas of these: [frames, 3 × values].

    Example:
        >>> from adamplus.lab.data.alignment import deltas
        >>> deltas(torch.arange(9.0)[:, None])[4]
        tensor([4., 1., 0.])
    """
    first = _slope(features)
    return torch.cat([features, first, _slope(first)], 1)


def normalized(features: Tensor) -> Tensor:
    """The features of one utterance with mean 0 and standard deviation 1, which makes speakers alike."""
    return (features - features.mean(0)) / features.std(0, correction=0).clamp(min=1e-3)


def chunks(tensor: Tensor, frames: int = FRAMES) -> Tensor:
    """Consecutive windows that do not overlap, without the frames at the end that fill none."""
    count = len(tensor) // frames
    return tensor[: count * frames].unflatten(0, (count, frames))


def _slope(features: Tensor) -> Tensor:
    """The slope of a linear regression; the first and the last frame are repeated beyond the ends."""
    padded = torch.cat([features[:1].expand(REACH, -1), features, features[-1:].expand(REACH, -1)])
    frames = len(features)

    def at(shift: int) -> Tensor:
        return padded[REACH + shift : REACH + shift + frames]

    total = sum(((n * (at(n) - at(-n))) for n in range(1, REACH + 1)), torch.zeros_like(features))
    return total / (2 * sum(n * n for n in range(1, REACH + 1)))
