"""Reader of CIFAR-10 and CIFAR-100, from either official layout, unpacked or in its archive."""

from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..archives import opened
from ..data_set import LIMIT, Place, data_root
from ..sets import find
from .cifar_formats import KINDS, READERS, ImageFile
from .files import LARGEST, bytes_of


class Images(NamedTuple):
    """Images with their labels."""

    images: Tensor
    """Bytes [n, 3, 32, 32]."""
    labels: Tensor
    """Whole numbers [n]."""


class ImageSet(NamedTuple):
    """Both splits, in the official order."""

    train: Images
    test: Images


def read(name: Literal["cifar10", "cifar100"], root: Path | None = None) -> ImageSet:
    """Read CIFAR under a root; the official sets have 50,000 training and 10,000 test images."""
    splits: dict[str, list[ImageFile]] = {"train": [], "test": []}
    with find(name).reading(data_root(root)) as place:
        split_of = {file.name: "test" if file.name.startswith("test") else "train" for file in place.layout.files}
        for (file, split), content in zip(split_of.items(), _contents(place, list(split_of)), strict=True):
            splits[split].append(READERS[place.layout.title](content, KINDS[name], f"{place.path}/{file}"))
    return ImageSet(_joined(splits["train"]), _joined(splits["test"]))


def _joined(files: list[ImageFile]) -> Images:
    images = torch.from_numpy(np.concatenate([file.images for file in files]))
    labels = torch.from_numpy(np.concatenate([file.labels for file in files]))
    return Images(images.view(-1, 3, 32, 32), labels.long())


def _contents(place: Place, names: list[str]) -> list[bytes]:
    """The bytes of the files, from the folder or in one pass over the archive."""
    if not place.packed:
        return [bytes_of(place.path / name) for name in names]
    found: dict[str, bytes] = {}
    with opened(place.path, LIMIT) as members:
        for member in members:
            *folder, name = PurePosixPath(member.name).parts or ("",)
            if folder != [place.layout.folders[0]] or name not in names or member.content is None:
                continue
            if member.size > LARGEST:
                raise InputError(f"{place.path}: {name} has {member.size:,} bytes, more than any file of CIFAR")
            found[name] = b"".join(iter(partial(member.content.read, 1 << 20), b""))
    if lacks := [name for name in names if name not in found]:
        raise InputError(f"{place.path} has no {', '.join(lacks)}")
    return [found[name] for name in names]
