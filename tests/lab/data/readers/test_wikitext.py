"""WikiText-2 is read word by word, as usual for language models."""

from contextlib import suppress
from pathlib import Path

import pytest
from data.bounds import CHANGES, changed
from data.writers import write_wikitext
from hypothesis import given
from hypothesis import strategies as st

from adamplus.lab.data.readers import wikitext
from adamplus.lab.errors import InputError


def test_words_are_numbered_by_first_occurrence_and_lines_end_in_eos(tmp_path: Path):
    write_wikitext(tmp_path)
    words = wikitext.read(tmp_path)
    assert words.vocabulary == ("<eos>", "=", "A", "title", "the", "<unk>", "cat", "sat")
    assert words.train.tolist() == [0, 1, 2, 3, 1, 0, 0, 4, 5, 6, 7, 0]
    assert words.validation.tolist() == [4, 6, 0]
    assert words.test.tolist() == [5, 6, 0]  # "a" is not in the training text


def test_other_unicode_separators_do_not_end_a_line(tmp_path: Path):
    write_wikitext(tmp_path, train="one\u2028two three <unk> \n")  # str.splitlines would split here
    assert wikitext.read(tmp_path).vocabulary == ("one", "two", "three", "<unk>", "<eos>")


def test_damaged_texts_are_reported(tmp_path: Path):
    folder = write_wikitext(tmp_path)
    (folder / "wiki.valid.tokens").write_bytes(b" the \xff cat \n")
    with pytest.raises(InputError, match=r"wiki.valid.tokens: byte 5 is not UTF-8"):
        wikitext.read(tmp_path)
    (folder / "wiki.valid.tokens").write_text(" \n \n")
    with pytest.raises(InputError, match=r"wiki.valid.tokens has no words"):
        wikitext.read(tmp_path)


def test_an_unknown_word_without_unk_is_reported(tmp_path: Path):
    write_wikitext(tmp_path, train="the cat \n", valid=" cat \n the dog \n")
    with pytest.raises(InputError, match=r"wiki.valid.tokens, line 2: the training text has neither the word 'dog'"):
        wikitext.read(tmp_path)


def test_missing_files_are_reported_with_the_download_command(tmp_path: Path):
    with pytest.raises(InputError, match=f"WikiText-2 is not in {tmp_path}: expected wikitext-2/ with wiki.train"):
        wikitext.read(tmp_path)
    folder = write_wikitext(tmp_path)
    (folder / "wiki.test.tokens").unlink()
    message = f"is incomplete: wiki.test.tokens missing. To get it: adamplus data download wikitext2 --data {tmp_path}"
    with pytest.raises(InputError, match=message):
        wikitext.read(tmp_path)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("small")
    write_wikitext(root)
    return root


@given(which=st.integers(0, 2), changes=CHANGES)
def test_changed_texts_are_read_or_refused(which: int, changes: list[tuple[int, bytes, int]], small: Path):
    path = sorted(path for path in small.rglob("*") if path.is_file())[which]
    with changed(path, changes), suppress(InputError):
        assert len(wikitext.read(small).train)
