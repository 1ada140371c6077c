"""AN4 is read with its transcripts and dictionary; inconsistent files are reported by name and line."""

import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from data.bounds import CHANGES, bounded, changed
from data.writers import mfc, write_an4
from hypothesis import given
from hypothesis import strategies as st

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
    assert found.test[0].words == ("GO",)  # without the marks of beginning and end
    assert found.pronunciations == {"GO": (("G", "OW"),), "YES": (("Y", "EH", "S"), ("Y", "S"))}
    assert found.phones == ("G", "OW", "Y", "EH", "S", "SIL")


WHOLE = mfc(np.ones((2, 13)))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (WHOLE[:-4], ": the first four bytes announce 26 numbers, but 25 follow: the file is cut off"),
        (WHOLE[:-1], ": .* announce 26 numbers, but 25.75 follow"),
        (b"\0\0", " is not a feature file: it must begin with four bytes, got 2"),
        (b"", " is not a feature file: it must begin with four bytes, got 0"),
        (struct.pack("<i", 26) + WHOLE[4:], ": .*the file is little-endian"),
        (struct.pack(">i", -1) + WHOLE[4:], ": .*announce -1 numbers"),
        (mfc(np.ones(25)), ": frames have 13 numbers, and 25 numbers are not a multiple of that"),
        (mfc(np.ones(0)), ": .* 0 numbers are not a multiple"),
        (mfc(np.where(np.arange(26) == 20, np.nan, 1.0)), ": frame 1 has values that are not finite"),
        (mfc(np.zeros(39)), " is not speech: all of its 3 frames are equal"),
    ],
)
def test_damaged_features_are_reported(content: bytes, problem: str, tmp_path: Path):
    (write_an4(tmp_path) / UTTERANCE).write_bytes(content)
    with pytest.raises(InputError, match=f"an1-fash-b.mfc{problem}"):
        an4.read(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("an4.dic", "GO G OW\nYES Y EH Q\n", "an4.dic, line 2: unknown phones Q"),
        ("an4.dic", "GO\n", "an4.dic, line 1: no phones after 'GO'"),
        ("an4.dic", "GO G OW\n", "an4_train.transcription, line 1: not in the dictionary: YES"),
        ("an4_train.transcription", "<s> </s> (an1-fash-b)\n", "line 1: an1-fash-b has no words"),
        ("an4_train.transcription", "GO YES\n", "line 1: 'GO YES' does not end in an utterance's name"),
        ("an4_train.transcription", "GO (an1-fash-b)\n", "an4_train.fileids, line 2: an2-fash-b has no line in"),
        ("an4_train.fileids", "", "an4_train.fileids lists no utterances"),
        ("an4_train.fileids", "../../secret\n", "line 1: '../../secret' leads out of the data set"),
        ("an4_train.fileids", "/etc/an1-fash-b\n", "leads out of the data set"),
        ("an4_train.fileids", "an4_clstk/\0/an1-fash-b\n", "leads out of the data set"),
        ("an4_train.fileids", ".\n", "line 1: '.' names no utterance"),
        ("an4_train.fileids", "a" * 5000 + "\n", "has no line in"),
        ("an4_train.transcription", "GO ()\n", "line 1: 'GO \\(\\)' does not end in an utterance's name"),
        ("an4_train.transcription", "GO (an1 fash b)\n", "does not end in an utterance's name"),
        ("an4_train.fileids", "elsewhere/an1-fash-b\n", "elsewhere/an1-fash-b.mfc cannot be read"),
    ],
)
def test_inconsistent_files_are_reported(file: str, content: str, problem: str, tmp_path: Path):
    (write_an4(tmp_path) / "etc" / file).write_text(content)
    with pytest.raises(InputError, match=problem):
        an4.read(tmp_path)


def test_text_that_is_not_utf_8_is_reported(tmp_path: Path):
    (write_an4(tmp_path) / "etc" / "an4.dic").write_bytes(b"GO G OW\n\xfe\n")
    with pytest.raises(InputError, match=r"an4.dic: byte 8 is not UTF-8"):
        an4.read(tmp_path)
    (tmp_path / "an4" / "etc" / "an4.dic").write_bytes(b"GO G OW\n" * 100_000 + b"\xfe\n")
    with pytest.raises(InputError, match=r"an4.dic: byte 800,000 is not UTF-8"):
        an4.read(tmp_path)


def test_missing_files_are_reported(tmp_path: Path):
    (write_an4(tmp_path) / "etc" / "an4.dic").unlink()
    with pytest.raises(InputError, match=r"AN4 in .*an4 is incomplete: etc/an4.dic missing"):
        an4.read(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("an4_train.transcription", "(" * 60_000, "does not end in an utterance's name"),
        ("an4.dic", "GO G OW\n" * 30_000, "not in the dictionary: YES"),
        ("an4.phone", "".join(f"P{i}\n" for i in range(30_000)), "unknown phones G OW"),
        ("an4.dic", " ".join(["GO", *["SIL"] * 100_000]), "not in the dictionary: YES"),
        ("an4_test.fileids", "an4_clstk/fcaw/an3-fcaw-b\n" * 3 + "\n" * 100_000 + ".", "line 100004: '.' names no"),
    ],
)
def test_time_grows_with_the_size_of_a_file(file: str, content: str, problem: str, tmp_path: Path):
    (write_an4(tmp_path) / "etc" / file).write_text(content)
    with bounded(), pytest.raises(InputError, match=problem):
        an4.read(tmp_path)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("small")
    write_an4(root, frames=2)
    return root


@given(which=st.integers(0, 8), changes=CHANGES)
def test_changed_files_are_read_or_refused(which: int, changes: list[tuple[int, bytes, int]], small: Path):
    files = sorted(path for path in small.rglob("*") if path.is_file())
    with changed(files[which], changes), suppress(InputError):
        an4.read(small)
