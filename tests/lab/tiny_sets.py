"""Tiny data sets in the real formats, and small models, for tests of experiments."""

from pathlib import Path

import numpy as np
import pytest
from data.writers import mfc, write_cifar, write_novels, write_swb300, write_wikitext
from torch import nn

from adamplus.lab.data import VARIABLE
from adamplus.lab.tasks import cifar
from adamplus.lab.tasks.novels import GPT2, NovelsGPT
from adamplus.lab.tasks.speech import Speech
from adamplus.lab.tasks.swb300 import Swb300
from adamplus.lab.tasks.wikitext2 import Wikitext2

WORDS = {"GO": "G OW", "YES": "Y EH S", "SO": "S OW"}
PHONES = ("G", "OW", "Y", "EH", "S", "SIL")


def write_sentences(root: Path, speakers: int = 4, frames: int = 64) -> Path:
    """AN4 of a few speakers: every phone is a fixed sound, in segments of uneven length, with noise."""
    folder = root / "an4"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc" / "an4.phone").write_text("".join(f"{phone}\n" for phone in PHONES))
    (folder / "etc" / "an4.dic").write_text("".join(f"{word}  {phones}\n" for word, phones in WORDS.items()))
    generator = np.random.default_rng(0)
    sounds = {phone: 4 * generator.standard_normal(13) for phone in PHONES}
    for split, names in {"train": range(speakers), "test": range(100, 102)}.items():
        identifiers, transcripts = [], []
        for speaker in names:
            for number, words in enumerate((["GO", "YES"], ["SO"], ["YES", "SO"])):
                name = f"an{number}-s{speaker}-b"
                phones = ["SIL", *(phone for word in words for phone in WORDS[word].split()), "SIL"]
                cuts = np.sort(generator.choice(np.arange(1, frames // 4), len(phones) - 1, replace=False)) * 4
                ends = [0, *cuts.tolist(), frames]
                heard = [np.tile(sounds[p], (b - a, 1)) for p, a, b in zip(phones, ends, ends[1:], strict=False)]
                features = np.concatenate(heard) + generator.standard_normal((frames, 13))
                identifiers.append(f"an4_clstk/s{speaker}/{name}\n")
                transcripts.append(f"{' '.join(words)} ({name})\n")
                path = folder / "feat" / "an4_clstk" / f"s{speaker}" / f"{name}.mfc"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(mfc(features))
        (folder / "etc" / f"an4_{split}.fileids").write_text("".join(identifiers))
        (folder / "etc" / f"an4_{split}.transcription").write_text("".join(transcripts))
    return folder


def write_all(root: Path, *, licensed: bool = True) -> Path:
    """Write every data set that an experiment reads; SWB-300 only if `licensed`."""
    write_cifar(root, "cifar10", rows=8)
    write_cifar(root, "cifar100", "binary", rows=24)
    text = " the <unk> cat sat on the mat \n"
    write_wikitext(root, train=200 * text, valid=100 * text, test=100 * text)
    write_novels(root)
    write_sentences(root)
    if licensed:
        write_swb300(root)
    return root


class SmallNetwork(nn.Sequential):
    """A replacement for ResNet18 and VGG19, with BatchNorm as they have."""

    def __init__(self, classes: int) -> None:
        super().__init__(
            nn.Conv2d(3, 4, 3, 8),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, classes),
        )


def make_small(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Let tasks read from a root, and replace their models by small ones."""
    monkeypatch.setenv(VARIABLE, str(root))
    for name in ("ResNet18", "VGG19"):
        monkeypatch.setattr(cifar, name, SmallNetwork)
    monkeypatch.setattr(Wikitext2, "width", 8)
    for task in (NovelsGPT, GPT2):
        monkeypatch.setattr(task, "windows", {"train": 200, "validation": 12, "test": 12})
        monkeypatch.setattr(task, "length", 16)
        monkeypatch.setattr(task, "shape", {"words": 256, "width": 8, "layers": 1, "heads": 2})
    for name, value in (("layers", 1), ("width", 8), ("projection", 6)):
        monkeypatch.setattr(Speech, name, value)
    monkeypatch.setattr(Swb300, "tied_states", 9)
