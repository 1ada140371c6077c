"""AN4 is read with its transcripts and its dictionary; what does not fit together is told by file and line."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from data.writers import mfc, write_an4

from adamplus.lab.data.readers import an4
from adamplus.lab.errors import InputError

UTTERANCE = "feat/an4_clstk/fash/an1-fash-b.mfc"


def test_utterances_have_their_cepstra_and_words(tmp_path: Path):
    folder = write_an4(tmp_path)
    features = np.arange(26, dtype=np.float32).reshape(2, 13)
    (folder / UTTERANCE).write_bytes(mfc(features))
    found = an4.read(tmp_path)
    assert [u.name for u in found.train] == ["an1-fash-b", "an2-fash-b"]
    assert torch.equal(found.train[0].features, torch.from_numpy(features))
    assert [u.words for u in found.train] == [("GO", "YES"), ("YES",)]
    assert found.test[0].words == ("GO",)  # without marks of beginning and end
    assert found.pronunciations == {"GO": (("G", "OW"),), "YES": (("Y", "EH", "S"), ("Y", "S"))}
    assert found.phones == ("G", "OW", "Y", "EH", "S", "SIL")


WHOLE = mfc(np.ones((2, 13)))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (WHOLE[:-4], "announce 26 numbers, and 25 follow: the file is cut off"),
        (WHOLE[:-1], "announce 26 numbers, and 25.75 follow"),
        (b"\0\0", "2 bytes are no feature file"),
        (b"", "0 bytes are no feature file"),
        (struct.pack("<i", 26) + WHOLE[4:], "it is little-endian"),
        (struct.pack(">i", -1) + WHOLE[4:], "announce -1 numbers"),
        (mfc(np.ones(25)), "25 numbers are no whole number of frames of 13"),
        (mfc(np.ones(0)), "0 numbers are no whole number"),
        (mfc(np.where(np.arange(26) == 20, np.nan, 1.0)), "frame 1 has numbers that are none"),
        (mfc(np.zeros(39)), "all of its 3 frames are the same, as no speech is"),
    ],
)
def test_damaged_features_are_told(content: bytes, problem: str, tmp_path: Path):
    (write_an4(tmp_path) / UTTERANCE).write_bytes(content)
    with pytest.raises(InputError, match=f"an1-fash-b.mfc: .*{problem}"):
        an4.read(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("an4.dic", "GO G OW\nYES Y EH Q\n", "an4.dic, line 2: unknown phones Q"),
        ("an4.dic", "GO\n", "an4.dic, line 1: no phones after 'GO'"),
        ("an4.dic", "GO G OW\n", "an4_train.transcription, line 1: the dictionary has no YES"),
        ("an4_train.transcription", "<s> </s> (an1-fash-b)\n", "line 1: there is no word of an1-fash-b in it"),
        ("an4_train.transcription", "GO YES\n", "line 1: 'GO YES' does not end in an utterance's name"),
        ("an4_train.transcription", "GO (an1-fash-b)\n", "an4_train.fileids, line 2: an2-fash-b has no line in"),
        ("an4_train.fileids", "", "an4_train.fileids: there is no utterance"),
        ("an4_train.fileids", "../../secret\n", "line 1: '../../secret' leads out of the data set"),
        ("an4_train.fileids", "/etc/an1-fash-b\n", "leads out of the data set"),
        ("an4_train.fileids", "an4_clstk/\0/an1-fash-b\n", "leads out of the data set"),
        ("an4_train.fileids", "elsewhere/an1-fash-b\n", "elsewhere/an1-fash-b.mfc cannot be read"),
    ],
)
def test_what_does_not_fit_together_is_told(file: str, content: str, problem: str, tmp_path: Path):
    (write_an4(tmp_path) / "etc" / file).write_text(content)
    with pytest.raises(InputError, match=problem):
        an4.read(tmp_path)


def test_text_that_is_none_is_told(tmp_path: Path):
    (write_an4(tmp_path) / "etc" / "an4.dic").write_bytes(b"GO G OW\n\xfe\n")
    with pytest.raises(InputError, match=r"an4.dic: byte 8 is not UTF-8"):
        an4.read(tmp_path)
    (tmp_path / "an4" / "etc" / "an4.dic").write_bytes(b"GO G OW\n" * 100_000 + b"\xfe\n")
    with pytest.raises(InputError, match=r"an4.dic: byte 800,000 is not UTF-8"):
        an4.read(tmp_path)


def test_missing_files_are_told(tmp_path: Path):
    (write_an4(tmp_path) / "etc" / "an4.dic").unlink()
    with pytest.raises(InputError, match=r"AN4 in .*an4 is not whole, it lacks etc/an4.dic"):
        an4.read(tmp_path)
