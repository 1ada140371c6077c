"""Reader of FSDD, recordings of spoken digits."""

import io
import re
import wave
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..data_set import data_root
from ..sets import find
from .files import bytes_of

RATE = 8000  # samples per second
TEST = 5  # the official test split is recordings 0 to 4 of every speaker and digit


class Recording(NamedTuple):
    """A recording of a digit."""

    wave: Tensor
    """Samples between -1 and 1, at 8,000 per second."""
    label: int
    speaker: str
    number: int
    """The number of the recording among those of this digit by this speaker."""


class Corpus(NamedTuple):
    """Both splits, ordered by the names of the files."""

    train: tuple[Recording, ...]
    test: tuple[Recording, ...]


def read(root: Path | None = None) -> Corpus:
    """Read FSDD under a root; the official set has 2,700 training and 300 test recordings."""
    with find("fsdd").reading(data_root(root)) as place:
        recordings = tuple(read_wav(path) for path in sorted(place.path.glob("*.wav")))
        train = tuple(one for one in recordings if one.number >= TEST)
        test = tuple(one for one in recordings if one.number < TEST)
        for name, split in (("train", train), ("test", test)):
            if not split:
                raise InputError(
                    f"{place.path} has no recordings of the {name} split, by the number that ends each file name"
                )
        return Corpus(train, test)


def read_wav(path: Path) -> Recording:
    """Read a recording from a file that is named DIGIT_SPEAKER_NUMBER.wav."""
    match = re.fullmatch(r"(\d)_(\w+?)_(\d+)\.wav", path.name)
    if match is None:
        raise InputError(f"{path} must be named DIGIT_SPEAKER_NUMBER.wav, as in 7_jackson_32.wav")
    try:
        with wave.open(io.BytesIO(bytes_of(path)), "rb") as file:
            form = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            announced = file.getnframes()
            content = file.readframes(announced)
    except InputError:
        raise
    except Exception as error:  # wave raises many kinds of errors for a damaged file
        raise InputError(f"{path} is not an uncompressed wav file ({str(error) or 'it is cut off'})") from error
    if form != (1, 16, RATE):
        raise InputError(
            f"{path} must have 1 channel of 16 bits at {RATE:,} Hz, got {form[0]} of {form[1]} bits at {form[2]:,} Hz"
        )
    if announced == 0 or len(content) != 2 * announced:
        raise InputError(f"{path} announces {announced:,} samples and has {len(content) / 2:,g}")
    samples = torch.from_numpy(np.frombuffer(content, "<i2").astype(np.float32) / 32768)
    return Recording(samples, int(match[1]), match[2], int(match[3]))
