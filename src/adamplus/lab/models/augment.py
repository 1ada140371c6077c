"""Random crops and flips of images, on the images' own device."""

import torch
from torch import Tensor
from torch.nn import functional


def crop_and_flip(x: Tensor, padding: int = 4) -> Tensor:
    """Images shifted by up to `padding` pixels each way and padded with zeros, half of them mirrored.

    Example:
        >>> images = torch.arange(2 * 3 * 32 * 32.0).view(2, 3, 32, 32)
        >>> adamplus.lab.models.crop_and_flip(images).shape
        torch.Size([2, 3, 32, 32])
    """
    n, _, height, width = x.shape
    down, right = torch.randint(2 * padding + 1, (2, n, 1), device=x.device)
    rows = down + torch.arange(height, device=x.device)
    columns = right + torch.arange(width, device=x.device)
    mirrored = torch.rand(n, 1, device=x.device) < 0.5
    columns = torch.where(mirrored, columns.flip(1), columns)
    padded = functional.pad(x, (padding,) * 4).permute(0, 2, 3, 1)  # channels last: one read per pixel
    every = torch.arange(n, device=x.device)[:, None, None]
    return padded[every, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
