"""One batch of CIFAR's images, from the bytes of a pickle or of a binary file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError
from . import pickles

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Kind:
    """What tells CIFAR-10's files from CIFAR-100's."""

    classes: int
    key: str
    """Of the labels, in a pickle."""
    label_bytes: int
    """Before an image, in a binary file; the last of them is the label, those before are of coarser classes."""


KINDS = {"cifar10": Kind(10, "labels", 1), "cifar100": Kind(100, "fine_labels", 2)}


class ImageFile(NamedTuple):
    """Images and labels of one file."""

    images: np.ndarray
    """Bytes, [n, 3072]: red, green and blue, each row by row."""
    labels: np.ndarray
    """Bytes, [n]."""


def from_pickle(content: bytes, kind: Kind, where: str) -> ImageFile:
    """A batch as `data_batch_1` or `train` has it."""
    loaded = pickles.load(content, where)
    if not isinstance(loaded, dict):
        raise InputError(f"{where}: the pickle holds a {type(loaded).__name__}, and CIFAR's a dictionary")
    entries = {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in loaded.items()}
    for key in ("data", kind.key):
        if key not in entries:
            raise InputError(f"{where}: it has no {key!r}; it has {', '.join(sorted(entries)) or 'nothing'}")
    images: Any = entries["data"]
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != PIXELS:
        shape = f"{images.dtype}, {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise InputError(f"{where}: 'data' should be bytes of the shape [images, {PIXELS}], and is {shape}")
    return _checked(images, _whole(entries[kind.key], kind.key, where), kind, where)


def _whole(values: Any, key: str, where: str) -> np.ndarray:
    """A pickle's labels; none of a file without images."""
    try:
        labels = np.asarray(values) if len(values) else np.empty(0, np.int64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {key!r} should be a list of whole numbers ({error})") from error
    if labels.dtype.kind not in "iu":
        raise InputError(f"{where}: {key!r} should be a list of whole numbers, and holds {labels.dtype}")
    return labels


def from_binary(content: bytes, kind: Kind, where: str) -> ImageFile:
    """A batch as `data_batch_1.bin` or `train.bin` has it."""
    width = kind.label_bytes + PIXELS
    if len(content) % width:
        raise InputError(
            f"{where}: {len(content):,} bytes are no whole number of images of {width:,} bytes: the file is cut off"
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, width)
    return _checked(rows[:, kind.label_bytes :], rows[:, kind.label_bytes - 1].astype(np.int64), kind, where)


READERS: dict[str, Callable[[bytes, Kind, str], ImageFile]] = {"python": from_pickle, "binary": from_binary}
"""By the title of a layout."""


def records(pickled: bytes, kind: Kind) -> bytes:
    """A pickle of CIFAR-10 as the binary file of the same batch."""
    images, labels = from_pickle(pickled, kind, "pickle")
    return np.concatenate([labels[:, None], images], axis=1).tobytes()


def _checked(images: np.ndarray, labels: np.ndarray, kind: Kind, where: str) -> ImageFile:
    if len(images) == 0:
        raise InputError(f"{where}: there is no image in it")
    if labels.shape != (len(images),):
        raise InputError(f"{where}: {len(images):,} images, and labels of the shape {list(labels.shape)}")
    if labels.min() < 0 or labels.max() >= kind.classes:
        row = int(np.flatnonzero((labels < 0) | (labels >= kind.classes))[0])
        other = " (those of CIFAR-100 go on to 99)" if kind.classes == 10 and labels.max() < 100 else ""
        raise InputError(
            f"{where}: image {row} has the label {labels[row]}, and labels are 0 to {kind.classes - 1}{other}"
        )
    return ImageFile(images, labels.astype(np.uint8))
