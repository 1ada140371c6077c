"""Stochastic rounding to bfloat16, with probability proportional to proximity, so that small steps are not lost.

The noise is a function of the element's number, its tensor and the step. A step that is repeated by the same execution
rounds in the same way.
"""

import torch
from torch import Tensor

MASK = 0xFFFFFFFF


def salt(group: int, number: int, shard: int = 0) -> int:
    """Number that makes a tensor's noise its own, from its position in the optimizer and the number of the shard."""
    return (group * 65_537 + number + shard * 0x9E3779B1) & MASK


def seeds(salts: list[int], steps: list[Tensor]) -> list[Tensor]:
    """One seed for each tensor, from its salt and its step count."""
    return [_mixed(own ^ _mixed(t.to(torch.int64))) for own, t in zip(salts, steps, strict=True)]


def store(x: Tensor, value: Tensor, seed: Tensor | None, first: int = 0) -> None:
    """Set x to value in place. With a seed, a bfloat16 x is rounded at random. `first` numbers its first element."""
    if seed is None or x.dtype != torch.bfloat16:
        x.copy_(value)
        return
    numbers = torch.arange(first, first + x.numel(), device=x.device).view(x.shape)
    noise = _mixed(numbers ^ seed.to(x.device)) & 0xFFFF
    value = value.float()
    rounded = ((value.view(torch.int32) + noise.to(torch.int32)) & ~0xFFFF).view(torch.float32)
    x.copy_(torch.where(value.isfinite(), rounded, value))


def another(seed: Tensor | None) -> Tensor | None:
    """Seed for one more rounding of the same tensor in the same step."""
    return None if seed is None else _mixed(seed + 1)


def _mixed(x: Tensor) -> Tensor:
    """Hash of 32 bits (lowbias32 of Chris Wellons' hash prospector)."""
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & MASK
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & MASK
    return x ^ (x >> 16)
