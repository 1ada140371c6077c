"""FSDD: recordings of spoken digits."""

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

RATE = 8000
TEST = 5  # recordings of every speaker and digit that the authors keep for the test: those numbered 0 to 4


class Recording(NamedTuple):
    """A digit, spoken once."""

    wave: Tensor
    """Samples between -1 and 1, 8,000 a second."""
    label: int
    speaker: str
    number: int
    """Among the recordings of this digit by this speaker."""


class Corpus(NamedTuple):
    """Both splits, in the order of their names."""

    train: tuple[Recording, ...]
    test: tuple[Recording, ...]


def read(root: Path | None = None) -> Corpus:
    """The data set under a root: the official one has 2,700 recordings to train and 300 to test."""
    with find("fsdd").reading(data_root(root)) as place:
        recordings = tuple(read_wav(path) for path in sorted(place.path.glob("*.wav")))
        train = tuple(one for one in recordings if one.number >= TEST)
        test = tuple(one for one in recordings if one.number < TEST)
        for name, split in (("train", train), ("test", test)):
            if not split:
                problem = f"no recording is of the {name} split, which goes by the last number of a name"
                raise InputError(f"{place.path}: {problem}")
        return Corpus(train, test)


def read_wav(path: Path) -> Recording:
    """A recording, from a file that is named DIGIT_SPEAKER_NUMBER.wav."""
    match = re.fullmatch(r"(\d)_(\w+?)_(\d+)\.wav", path.name)
    if match is None:
        raise InputError(f"{path}: names are DIGIT_SPEAKER_NUMBER.wav, as in 7_jackson_32.wav")
    try:
        with wave.open(str(path), "rb") as file:
            form = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            announced = file.getnframes()
            content = file.readframes(announced)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    except Exception as error:  # whatever wave makes of a damaged file
        raise InputError(f"{path}: this is no wav file of plain samples ({str(error) or 'it is cut off'})") from error
    if form != (1, 16, RATE):
        raise InputError(
            f"{path}: {form[0]} channels of {form[1]} bits at {form[2]:,} Hz, and FSDD has 1 of 16 at {RATE:,}"
        )
    if announced == 0 or len(content) != 2 * announced:
        raise InputError(f"{path}: {announced:,} samples are announced, and there are {len(content) / 2:,g}")
    samples = torch.from_numpy(np.frombuffer(content, "<i2").astype(np.float32) / 32768)
    return Recording(samples, int(match[1]), match[2], int(match[3]))
