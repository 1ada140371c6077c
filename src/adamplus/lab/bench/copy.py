"""How fast this device copies memory: the bandwidth that steps are held against."""

import statistics

import torch

from ..device import room
from .time import stretch

LARGE = {"cuda": 1 << 30, "cpu": 1 << 28}
"""Bytes of the buffer that is copied, beyond what caches hold."""


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second, read and written, of a copy on the device: the best of three medians."""
    source = torch.ones(min(LARGE[device.type], room(device) // 8) // 4, device=device)
    target = torch.zeros_like(source)
    medians = [statistics.median(stretch(lambda: target.copy_(source), 2, device) for _ in range(5)) for _ in range(3)]
    return 2 * source.nbytes / (min(medians) / 1e3)
