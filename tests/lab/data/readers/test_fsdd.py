"""FSDD's recordings are read with the label, speaker and number in their names."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from data.bounds import CHANGES, bounded, changed
from data.writers import write_fsdd, write_wav
from hypothesis import given

from adamplus.lab.data.readers import fsdd
from adamplus.lab.errors import InputError


def test_recordings_have_the_facts_in_their_names(tmp_path: Path):
    folder = write_fsdd(tmp_path)
    write_wav(folder / "7_bob_5.wav", np.array([0, -32768, 16384]))
    found = fsdd.read(tmp_path)
    assert [(r.label, r.speaker, r.number) for r in found.test] == [
        (0, "ann", 4),
        (0, "bob", 4),
        (7, "ann", 4),
        (7, "bob", 4),
    ]
    assert found.train[-1].label == 7
    assert found.train[-1].wave.tolist() == [0, -1, 0.5]


def test_the_folder_of_the_repository_is_found(tmp_path: Path):
    write_fsdd(tmp_path / "elsewhere").rename(tmp_path / "recordings")
    assert len(fsdd.read(tmp_path).train) == 4


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"channels": 2}, "got 2 of 16 bits at 8,000 Hz"),
        ({"width": 1}, "got 1 of 8 bits"),
        ({"rate": 16000}, "1 channel of 16 bits at 8,000 Hz, got 1 of 16 bits at 16,000"),
    ],
)
def test_other_audio_formats_are_reported(form: dict[str, int], problem: str, tmp_path: Path):
    write_wav(write_fsdd(tmp_path) / "7_ann_9.wav", np.arange(8), **form)
    with pytest.raises(InputError, match=f"7_ann_9.wav .*{problem}"):
        fsdd.read(tmp_path)


def test_damaged_recordings_are_reported(tmp_path: Path):
    path = write_fsdd(tmp_path) / "7_ann_9.wav"
    write_wav(path, np.arange(100))
    whole = path.read_bytes()
    for content, problem in (
        (whole[:-50], "announces 100 samples and has 75"),
        (whole[:20], "is not an uncompressed wav file"),
        (b"", "is not an uncompressed wav file .it is cut off"),
        (b"ID3" + bytes(100), "is not an uncompressed wav file"),
        (
            whole[:16] + b"\0\0\0\x80" + whole[20:],
            "is not an uncompressed wav file",
        ),  # wave raises RuntimeError()
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"7_ann_9.wav .*{problem}"):
            fsdd.read(tmp_path)
    write_wav(path, np.arange(0))
    with pytest.raises(InputError, match="announces 0 samples"):
        fsdd.read(tmp_path)


def test_files_with_other_names_are_reported(tmp_path: Path):
    write_wav(write_fsdd(tmp_path) / "hello.wav", np.arange(8))
    with pytest.raises(InputError, match=r"hello.wav must be named DIGIT_SPEAKER_NUMBER.wav"):
        fsdd.read(tmp_path)


def test_a_split_without_recordings_is_reported(tmp_path: Path):
    for path in write_fsdd(tmp_path).glob("*_4.wav"):
        path.unlink()
    with pytest.raises(InputError, match="has no recordings of the test split"):
        fsdd.read(tmp_path)


def test_files_that_are_too_large_or_no_files_are_not_read(tmp_path: Path):
    path = write_fsdd(tmp_path) / "7_ann_9.wav"
    os.mkfifo(path)
    with bounded(), pytest.raises(InputError, match=r"7_ann_9.wav cannot be read \(it is not a file\)"):
        fsdd.read(tmp_path)
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with bounded(), pytest.raises(InputError, match=r"7_ann_9.wav has 1,099,511,627,776 bytes, more than any file of"):
        fsdd.read(tmp_path)


def test_a_chunk_that_claims_much_takes_no_memory(tmp_path: Path):
    path = write_fsdd(tmp_path) / "7_ann_9.wav"
    write_wav(path, np.arange(100))
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff\xff\xff\x7f" + whole[8:40] + b"\xff\xff\xff\x7e" + whole[44:])
    with bounded(), pytest.raises(InputError, match="announces 1,065,353,215 samples and has 100"):
        fsdd.read(tmp_path)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "7_ann_9.wav"
    write_wav(path, np.arange(20))
    return path


@given(changes=CHANGES)
def test_changed_recordings_are_read_or_refused(changes: list[tuple[int, bytes, int]], small: Path):
    with changed(small, changes), suppress(InputError):
        assert len(fsdd.read_wav(small).wave)
