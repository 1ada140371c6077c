"""CIFAR's two file formats: pickles and binary files of images and labels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError
from . import pickles

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Kind:
    """How the files of CIFAR-10 and CIFAR-100 differ."""

    classes: int
    key: str
    """The key of the labels in a pickle."""
    label_bytes: int
    """Bytes of labels before an image in a binary file; the last is the label, the first of two is a coarser class."""


KINDS = {"cifar10": Kind(10, "labels", 1), "cifar100": Kind(100, "fine_labels", 2)}


class ImageFile(NamedTuple):
    """The images and labels of one file."""

    images: np.ndarray
    """Bytes [n, 3072]: red, green and blue, each row by row."""
    labels: np.ndarray
    """Bytes [n]."""


def from_pickle(content: bytes, kind: Kind, where: str) -> ImageFile:
    """Read a pickle such as `data_batch_1` or `train`."""
    loaded = pickles.load(content, where)
    if not isinstance(loaded, dict):
        raise InputError(f"{where}: the pickle must hold a dictionary, got {type(loaded).__name__}")
    entries = {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in loaded.items()}
    for key in ("data", kind.key):
        if key not in entries:
            others = [ascii(name[:40])[1:-1] for name in sorted(entries)[:10]]
            raise InputError(f"{where} has no {key!r}; it has {', '.join(others) or 'nothing'}")
    images: Any = entries["data"]
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != PIXELS:
        shape = f"{images.dtype}, {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise InputError(f"{where}: 'data' must be uint8, [images, {PIXELS}], got {shape}")
    return _checked(images, _whole(entries[kind.key], kind.key, where), kind, where)


def _whole(values: Any, key: str, where: str) -> np.ndarray:
    """The labels of a pickle as an array, which is empty for a file without images."""
    if isinstance(values, np.ndarray):
        strange = None if values.dtype.kind in "iu" else f"an array of {values.dtype}"
    elif isinstance(values, list | tuple):  # not np.asarray: a few lists inside of each other may be endlessly many
        strange = next((f"a {type(value).__name__} in it" for value in values if type(value) is not int), None)
    else:
        strange = type(values).__name__
    if strange is not None:
        raise InputError(f"{where}: {key!r} must be a list of whole numbers, got {strange}")
    return np.asarray(values, np.int64)


def from_binary(content: bytes, kind: Kind, where: str) -> ImageFile:
    """Read a binary file such as `data_batch_1.bin` or `train.bin`."""
    width = kind.label_bytes + PIXELS
    if len(content) % width:
        raise InputError(
            f"{where} is cut off: an image has {width:,} bytes, and {len(content):,} are not a multiple of that"
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, width)
    return _checked(rows[:, kind.label_bytes :], rows[:, kind.label_bytes - 1].astype(np.int64), kind, where)


READERS: dict[str, Callable[[bytes, Kind, str], ImageFile]] = {"python": from_pickle, "binary": from_binary}
"""Readers by the title of a layout."""


def records(pickled: bytes, kind: Kind) -> bytes:
    """The binary file with the content of a pickle of CIFAR-10."""
    images, labels = from_pickle(pickled, kind, "pickle")
    return np.concatenate([labels[:, None], images], axis=1).tobytes()


def _checked(images: np.ndarray, labels: np.ndarray, kind: Kind, where: str) -> ImageFile:
    if len(images) == 0:
        raise InputError(f"{where} has no images")
    if labels.shape != (len(images),):
        raise InputError(f"{where} has {len(images):,} images, but labels of shape {list(labels.shape)}")
    if labels.min() < 0 or labels.max() >= kind.classes:
        row = int(np.flatnonzero((labels < 0) | (labels >= kind.classes))[0])
        other = " (up to 99 in CIFAR-100)" if kind.classes == 10 and labels.max() < 100 else ""
        raise InputError(f"{where}: labels must be 0 to {kind.classes - 1}{other}, got {labels[row]} for image {row}")
    return ImageFile(images, labels.astype(np.uint8))
