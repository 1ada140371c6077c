"""AN4: cepstra of utterances, the words that are spoken, and how words are pronounced."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..data_set import data_root
from ..sets import find
from .files import bytes_of, lines_of

CEPSTRA = 13
MARKS = ("<s>", "</s>", "<sil>")  # of beginning, end and silence, which some copies have in their transcriptions


class Utterance(NamedTuple):
    """What one person said at one time."""

    name: str
    features: Tensor
    """Cepstra, [frames, 13]; a hundred frames a second."""
    words: tuple[str, ...]


class Corpus(NamedTuple):
    """Both splits, by different speakers, and the dictionary."""

    train: tuple[Utterance, ...]
    test: tuple[Utterance, ...]
    pronunciations: dict[str, tuple[tuple[str, ...], ...]]
    """Of every word; the first is the usual one."""
    phones: tuple[str, ...]
    """With SIL, for silence."""


def read(root: Path | None = None) -> Corpus:
    """The data set under a root: the official one has 948 utterances to train and 130 to test."""
    with find("an4").reading(data_root(root)) as place:
        etc = place.path / "etc"
        phones = tuple(line.strip() for line in lines_of(etc / "an4.phone") if line.strip())
        pronunciations = _dictionary(etc / "an4.dic", phones)
        train, test = (_utterances(place.path, split, pronunciations) for split in ("train", "test"))
        return Corpus(train, test, pronunciations, phones)


def read_mfc(path: Path) -> Tensor:
    """A feature file of Sphinx: how many numbers follow, then the numbers, all big-endian in four bytes."""
    content = bytes_of(path)
    if len(content) < 4:
        raise InputError(f"{path}: {len(content)} bytes are no feature file, which begins with a count of four bytes")
    count = int.from_bytes(content[:4], "big", signed=True)
    if len(content) != 4 + 4 * count:
        other = int.from_bytes(content[:4], "little", signed=True)
        cause = "it is little-endian" if len(content) == 4 + 4 * other else "the file is cut off, or another one"
        raise InputError(
            f"{path}: its first four bytes announce {count:,} numbers, and {(len(content) - 4) / 4:,g} follow: {cause}"
        )
    if count == 0 or count % CEPSTRA:
        raise InputError(f"{path}: {count:,} numbers are no whole number of frames of {CEPSTRA}")
    features = torch.from_numpy(np.frombuffer(content, ">f4", offset=4).astype(np.float32)).view(-1, CEPSTRA)
    if not features.isfinite().all():
        raise InputError(f"{path}: frame {int((~features.isfinite()).any(1).nonzero()[0])} has numbers that are none")
    if len(features) > 1 and bool((features == features[0]).all()):
        raise InputError(f"{path}: all of its {len(features):,} frames are the same, as no speech is")
    return features


def _dictionary(path: Path, phones: tuple[str, ...]) -> dict[str, tuple[tuple[str, ...], ...]]:
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for i, line in enumerate(lines_of(path), 1):
        word, *pronunciation = line.split() or [""]
        if not word:
            continue
        strange = [phone for phone in pronunciation if phone not in phones]
        if strange or not pronunciation:
            problem = f"unknown phones {' '.join(strange)}" if pronunciation else f"no phones after {word!r}"
            raise InputError(f"{path}, line {i}: {problem}; an4.phone has {' '.join(phones)}")
        word = re.sub(r"\(\d+\)$", "", word)  # A(2) is another way to say A
        found[word] = (*found.get(word, ()), tuple(pronunciation))
    return found


def _utterances(
    folder: Path, split: str, pronunciations: dict[str, tuple[tuple[str, ...], ...]]
) -> tuple[Utterance, ...]:
    control, spoken = folder / "etc" / f"an4_{split}.fileids", folder / "etc" / f"an4_{split}.transcription"
    transcripts = _transcripts(spoken, pronunciations)
    utterances = []
    for i, identifier in enumerate((line.strip() for line in lines_of(control)), 1):
        if not identifier:
            continue
        parts = Path(identifier).parts
        if Path(identifier).is_absolute() or ".." in parts or "\0" in identifier:
            raise InputError(f"{control}, line {i}: {identifier!r} leads out of the data set")
        name = parts[-1]
        if name not in transcripts:
            raise InputError(f"{control}, line {i}: {name} has no line in {spoken}")
        features = read_mfc(folder / "feat" / f"{identifier}.mfc")
        utterances.append(Utterance(name, features, transcripts[name]))
    if not utterances:
        raise InputError(f"{control}: there is no utterance in it")
    return tuple(utterances)


def _transcripts(path: Path, pronunciations: dict[str, tuple[tuple[str, ...], ...]]) -> dict[str, tuple[str, ...]]:
    found = {}
    for i, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        match = re.fullmatch(r"(.*)\((\S+)\)\s*", line)
        if match is None:
            raise InputError(f"{path}, line {i}: {line!r} does not end in an utterance's name in parentheses")
        words = tuple(word for word in match[1].split() if word not in MARKS)
        if not words:
            raise InputError(f"{path}, line {i}: there is no word of {match[2]} in it")
        if strange := [word for word in words if word not in pronunciations]:
            raise InputError(f"{path}, line {i}: the dictionary has no {' '.join(strange)}")
        found[match[2]] = words
    return found
