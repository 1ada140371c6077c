"""Crops and flips of training images: which ones occur, and how often."""

import torch
from torch.nn import functional

from adamplus.lab.models.augment import crop_and_flip


def every_way(image: torch.Tensor, padding: int = 4) -> torch.Tensor:
    """All shifts, followed by their mirror images."""
    padded = functional.pad(image, (padding,) * 4)
    size, places = image.shape[-1], range(2 * padding + 1)
    crops = torch.stack([padded[:, y : y + size, x : x + size] for y in places for x in places])
    return torch.cat([crops, crops.flip(-1)])


def test_all_crops_and_their_mirror_images_are_equally_frequent():
    torch.manual_seed(0)
    image = torch.randn(3, 32, 32)
    ways, n = every_way(image), 8100
    made = crop_and_flip(image.expand(n, 3, 32, 32)).flatten(1)
    which = torch.cdist(made.double(), ways.flatten(1).double()).argmin(1)
    assert torch.equal(made, ways.flatten(1)[which])
    counts = torch.bincount(which, minlength=162)
    # χ² with 161 degrees of freedom exceeds 212 once in 250
    assert float(((counts - n / 162) ** 2 / (n / 162)).sum()) < 212


def test_every_image_of_a_batch_is_shifted_independently_and_keeps_its_channels():
    torch.manual_seed(0)
    images = torch.randn(64, 3, 32, 32)
    made = crop_and_flip(images)
    places = set()
    for image, one in zip(images, made, strict=True):
        same = (every_way(image) == one).flatten(1).all(1)
        assert int(same.sum()) == 1
        places.add(int(same.nonzero()))
    assert len(places) > 40


def test_images_are_not_changed_in_place():
    images = torch.randn(2, 3, 32, 32)
    before = images.clone()
    crop_and_flip(images)
    assert torch.equal(images, before)
