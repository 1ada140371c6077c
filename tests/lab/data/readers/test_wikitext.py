"""WikiText-2 is read word by word, as language models are trained on it."""

from pathlib import Path

import pytest
from data.writers import write_wikitext

from adamplus.lab.data.readers import wikitext
from adamplus.lab.errors import InputError


def test_words_are_numbered_as_they_occur_and_every_line_ends(tmp_path: Path):
    write_wikitext(tmp_path)
    words = wikitext.read(tmp_path)
    assert words.vocabulary == ("<eos>", "=", "A", "title", "the", "<unk>", "cat", "sat")
    assert words.train.tolist() == [0, 1, 2, 3, 1, 0, 0, 4, 5, 6, 7, 0]
    assert words.validation.tolist() == [4, 6, 0]
    assert words.test.tolist() == [5, 6, 0]  # "a" is not in the training text


def test_only_ends_of_lines_are_ends_of_lines(tmp_path: Path):
    write_wikitext(tmp_path, train="one\u2028two three <unk> \n")  # what str.splitlines would cut
    assert wikitext.read(tmp_path).vocabulary == ("one", "two", "three", "<unk>", "<eos>")


def test_damaged_texts_are_told(tmp_path: Path):
    folder = write_wikitext(tmp_path)
    (folder / "wiki.valid.tokens").write_bytes(b" the \xff cat \n")
    with pytest.raises(InputError, match=r"wiki.valid.tokens: byte 5 is not UTF-8"):
        wikitext.read(tmp_path)
    (folder / "wiki.valid.tokens").write_text(" \n \n")
    with pytest.raises(InputError, match=r"wiki.valid.tokens: there is no word in it"):
        wikitext.read(tmp_path)


def test_a_word_that_no_number_stands_for_is_told(tmp_path: Path):
    write_wikitext(tmp_path, train="the cat \n", valid=" cat \n the dog \n")
    with pytest.raises(InputError, match=r"wiki.valid.tokens, line 2: the word 'dog' is not in the training text"):
        wikitext.read(tmp_path)


def test_what_is_missing_is_told_with_the_command_that_gets_it(tmp_path: Path):
    with pytest.raises(InputError, match=f"WikiText-2 is not in {tmp_path}: expected is wikitext-2/ with wiki.train"):
        wikitext.read(tmp_path)
    folder = write_wikitext(tmp_path)
    (folder / "wiki.test.tokens").unlink()
    told = f"it lacks wiki.test.tokens. To get it: adamplus data download wikitext2 --data {tmp_path}"
    with pytest.raises(InputError, match=told):
        wikitext.read(tmp_path)
