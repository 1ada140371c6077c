"""Stochastic rounding to bfloat16: up as often as the value is near, so that small steps are lost in no direction.

The noise is a function of the element's number, its tensor and the step: a step that is taken again in the same way of
executing it rounds in the same way.
"""

import torch
from torch import Tensor

MASK = 0xFFFFFFFF


def salt(group: int, number: int, shard: int = 0) -> int:
    """What sets a tensor's noise apart: its place in the optimizer, and which shard of it this is."""
    return (group * 65_537 + number + shard * 0x9E3779B1) & MASK


def seeds(salts: list[int], steps: list[Tensor]) -> list[Tensor]:
    """One seed a tensor, from its salt and its count of steps."""
    return [_mixed(own ^ _mixed(t.to(torch.int64))) for own, t in zip(salts, steps, strict=True)]


def store(x: Tensor, value: Tensor, seed: Tensor | None, first: int = 0) -> None:
    """X = value in place; with a seed, a bfloat16 x is rounded at random. `first` numbers its first element."""
    if seed is None or x.dtype != torch.bfloat16:
        x.copy_(value)
        return
    numbers = torch.arange(first, first + x.numel(), device=x.device).view(x.shape)
    noise = _mixed(numbers ^ seed.to(x.device)) & 0xFFFF
    value = value.float()
    rounded = ((value.view(torch.int32) + noise.to(torch.int32)) & ~0xFFFF).view(torch.float32)
    x.copy_(torch.where(value.isfinite(), rounded, value))


def another(seed: Tensor | None) -> Tensor | None:
    """A seed for one more rounding of the same tensor in the same step."""
    return None if seed is None else _mixed(seed + 1)


def _mixed(x: Tensor) -> Tensor:
    """A hash of 32 bits, each of which depends on all of x's (lowbias32 of Chris Wellons' hash prospector)."""
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & MASK
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & MASK
    return x ^ (x >> 16)
