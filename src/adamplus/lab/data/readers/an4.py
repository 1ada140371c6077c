"""Reader of AN4: cepstra of utterances, their words, and a pronunciation dictionary."""

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
MARKS = ("<s>", "</s>", "<sil>")  # begin, end and silence, which are in the transcriptions of some copies


class Utterance(NamedTuple):
    """A recorded sentence."""

    name: str
    features: Tensor
    """Cepstra [frames, 13], at 100 frames per second."""
    words: tuple[str, ...]


class Corpus(NamedTuple):
    """Both splits, which have different speakers, and the dictionary."""

    train: tuple[Utterance, ...]
    test: tuple[Utterance, ...]
    pronunciations: dict[str, tuple[tuple[str, ...], ...]]
    """Pronunciations of every word, the usual one first."""
    phones: tuple[str, ...]
    """All phones, including SIL for silence."""


def read(root: Path | None = None) -> Corpus:
    """Read AN4 under a root; the official set has 948 training and 130 test utterances."""
    with find("an4").reading(data_root(root)) as place:
        etc = place.path / "etc"
        phones = tuple(line.strip() for line in lines_of(etc / "an4.phone") if line.strip())
        pronunciations = _dictionary(etc / "an4.dic", phones)
        train, test = (_utterances(place.path, split, pronunciations) for split in ("train", "test"))
        return Corpus(train, test, pronunciations, phones)


def read_mfc(path: Path) -> Tensor:
    """Read a feature file of Sphinx: a count and as many numbers, all big-endian and of four bytes."""
    content = bytes_of(path)
    if len(content) < 4:
        raise InputError(f"{path} is not a feature file: it must begin with four bytes, got {len(content)}")
    count = int.from_bytes(content[:4], "big", signed=True)
    if len(content) != 4 + 4 * count:
        other = int.from_bytes(content[:4], "little", signed=True)
        cause = "the file is little-endian" if len(content) == 4 + 4 * other else "the file is cut off, or not AN4's"
        raise InputError(
            f"{path}: the first four bytes announce {count:,} numbers, but {(len(content) - 4) / 4:,g} follow: {cause}"
        )
    if count == 0 or count % CEPSTRA:
        raise InputError(f"{path}: frames have {CEPSTRA} numbers, and {count:,} numbers are not a multiple of that")
    features = torch.from_numpy(np.frombuffer(content, ">f4", offset=4).astype(np.float32)).view(-1, CEPSTRA)
    if not features.isfinite().all():
        frame = int((~features.isfinite()).any(1).nonzero()[0])
        raise InputError(f"{path}: frame {frame} has values that are not finite")
    if len(features) > 1 and bool((features == features[0]).all()):
        raise InputError(f"{path} is not speech: all of its {len(features):,} frames are equal")
    return features


def _dictionary(path: Path, phones: tuple[str, ...]) -> dict[str, tuple[tuple[str, ...], ...]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    known = set(phones)
    for i, line in enumerate(lines_of(path), 1):
        word, *pronunciation = line.split() or [""]
        if not word:
            continue
        strange = [phone for phone in pronunciation if phone not in known]
        if strange or not pronunciation:
            problem = f"unknown phones {' '.join(strange)}" if pronunciation else f"no phones after {word!r}"
            raise InputError(f"{path}, line {i}: {problem}; an4.phone has {' '.join(phones)}")
        word = re.sub(r"\(\d+\)$", "", word)  # A(2) is another pronunciation of A
        found.setdefault(word, []).append(tuple(pronunciation))
    return {word: tuple(pronunciations) for word, pronunciations in found.items()}


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
        if not parts:
            raise InputError(f"{control}, line {i}: {identifier!r} names no utterance")
        if Path(identifier).is_absolute() or ".." in parts or "\0" in identifier:
            raise InputError(f"{control}, line {i}: {identifier!r} leads out of the data set")
        name = parts[-1]
        if name not in transcripts:
            raise InputError(f"{control}, line {i}: {name} has no line in {spoken}")
        features = read_mfc(folder / "feat" / f"{identifier}.mfc")
        utterances.append(Utterance(name, features, transcripts[name]))
    if not utterances:
        raise InputError(f"{control} lists no utterances")
    return tuple(utterances)


def _transcripts(path: Path, pronunciations: dict[str, tuple[tuple[str, ...], ...]]) -> dict[str, tuple[str, ...]]:
    found = {}
    for i, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        spoken, _, rest = line.rstrip().rpartition("(")
        name = rest.removesuffix(")")
        if name == rest or name.split() != [name]:
            raise InputError(f"{path}, line {i}: {line!r} does not end in an utterance's name in parentheses")
        words = tuple(word for word in spoken.split() if word not in MARKS)
        if not words:
            raise InputError(f"{path}, line {i}: {name} has no words")
        if strange := [word for word in words if word not in pronunciations]:
            raise InputError(f"{path}, line {i}: not in the dictionary: {' '.join(strange)}")
        found[name] = words
    return found
