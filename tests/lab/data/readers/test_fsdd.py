"""FSDD's recordings are read with what their names say."""

from pathlib import Path

import numpy as np
import pytest
from data.writers import write_fsdd, write_wav

from adamplus.lab.data.readers import fsdd
from adamplus.lab.errors import InputError


def test_recordings_have_what_their_names_say(tmp_path: Path):
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


def test_the_repository_as_it_is_will_do(tmp_path: Path):
    write_fsdd(tmp_path / "elsewhere").rename(tmp_path / "recordings")
    assert len(fsdd.read(tmp_path).train) == 4


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"channels": 2}, "2 channels of 16 bits at 8,000 Hz"),
        ({"width": 1}, "1 channels of 8 bits"),
        ({"rate": 16000}, "at 16,000 Hz, and FSDD has 1 of 16 at 8,000"),
    ],
)
def test_other_forms_of_sound_are_told(form: dict[str, int], problem: str, tmp_path: Path):
    write_wav(write_fsdd(tmp_path) / "7_ann_9.wav", np.arange(8), **form)
    with pytest.raises(InputError, match=f"7_ann_9.wav: .*{problem}"):
        fsdd.read(tmp_path)


def test_damaged_recordings_are_told(tmp_path: Path):
    path = write_fsdd(tmp_path) / "7_ann_9.wav"
    write_wav(path, np.arange(100))
    whole = path.read_bytes()
    for content, problem in (
        (whole[:-50], "100 samples are announced, and there are 75"),
        (whole[:20], "no wav file"),
        (b"", "no wav file of plain samples .it is cut off"),
        (b"ID3" + bytes(100), "no wav file"),
        (whole[:16] + b"\0\0\0\x80" + whole[20:], "no wav file"),  # the size of its form: wave raises RuntimeError()
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"7_ann_9.wav: .*{problem}"):
            fsdd.read(tmp_path)
    write_wav(path, np.arange(0))
    with pytest.raises(InputError, match="0 samples are announced"):
        fsdd.read(tmp_path)


def test_names_that_say_nothing_are_told(tmp_path: Path):
    write_wav(write_fsdd(tmp_path) / "hello.wav", np.arange(8))
    with pytest.raises(InputError, match=r"hello.wav: names are DIGIT_SPEAKER_NUMBER.wav"):
        fsdd.read(tmp_path)


def test_a_split_without_recordings_is_told(tmp_path: Path):
    for path in write_fsdd(tmp_path).glob("*_4.wav"):
        path.unlink()
    with pytest.raises(InputError, match="no recording is of the test split"):
        fsdd.read(tmp_path)
