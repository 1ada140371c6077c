"""100 English Novels are read as bytes, and split by novel."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from data.bounds import CHANGES, bounded, changed
from data.writers import write_novels
from hypothesis import given

from adamplus.lab.data.readers import files, novels
from adamplus.lab.errors import InputError


def content(folder: Path, *numbers: int) -> bytes:
    return b"".join((folder / f"Author{number:03}_Title_1900.txt").read_bytes() for number in numbers)


def test_the_10th_novel_of_20_is_for_validation_and_the_20th_for_tests(tmp_path: Path):
    folder = write_novels(tmp_path, count=40)
    found = novels.read(tmp_path)
    assert bytes(found.validation.tolist()) == content(folder, 9, 29)
    assert bytes(found.test.tolist()) == content(folder, 19, 39)
    train = [number for number in range(40) if number not in (9, 19, 29, 39)]
    assert bytes(found.train.tolist()) == content(folder, *train)


def test_bytes_are_those_of_the_files_with_line_ends_and_marks(tmp_path: Path):
    folder = write_novels(tmp_path)
    text = b"\xef\xbb\xbfIt is a truth\r\n\xe2\x80\x94 universally"  # the official files begin with this mark
    (folder / "Author009_Title_1900.txt").write_bytes(text)
    assert bytes(novels.read(tmp_path).validation.tolist()) == text


def test_too_few_novels_are_reported(tmp_path: Path):
    write_novels(tmp_path, count=19)
    with pytest.raises(InputError, match=r"corpus must have at least 20 novels to divide into splits, got 19\. To rep"):
        novels.read(tmp_path)


def test_damaged_novels_are_reported(tmp_path: Path):
    path = write_novels(tmp_path) / "Author003_Title_1900.txt"
    for text, problem in (
        (b"It is \xff truth", "Author003_Title_1900.txt: byte 6 is not UTF-8 text"),
        (b" \r\n", "Author003_Title_1900.txt has no text"),
    ):
        path.write_bytes(text)
        with pytest.raises(InputError, match=problem):
            novels.read(tmp_path)


def test_files_and_sets_that_are_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_novels(tmp_path, length=200)
    monkeypatch.setattr(novels, "MOST", 3999)
    with pytest.raises(InputError, match=r"corpus has more than 3,999 bytes of novels"):
        novels.read(tmp_path)
    os.truncate(folder / "Author000_Title_1900.txt", files.LARGEST + 1)  # a file with a hole takes no space on the disk
    with bounded(), pytest.raises(InputError, match="more than any file of a data set"):
        novels.read(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path):
    folder = write_novels(tmp_path)
    (folder / "Author000_Title_1900.txt").unlink()
    os.mkfifo(folder / "Author000_Title_1900.txt")
    with bounded(), pytest.raises(InputError, match="it is not a file"):
        novels.read(tmp_path)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("small")
    write_novels(root)
    return root


@given(changes=CHANGES)
def test_changed_novels_are_read_or_refused(changes: list[tuple[int, bytes, int]], small: Path):
    path = sorted(small.rglob("*.txt"))[9]
    with changed(path, changes), suppress(InputError):
        assert bytes(novels.read(small).validation.tolist()) == path.read_bytes()
