"""Loading of the user's Python files."""

from pathlib import Path

import pytest

from adamplus.lab._store.user_code import load_file
from adamplus.lab.errors import InputError


def test_a_file_is_executed_again_only_if_it_has_changed(tmp_path: Path):
    file = tmp_path / "counting.py"
    file.write_text("value = object()\n")
    first = load_file(file, "a task")
    assert load_file(file, "a task").value is first.value
    file.write_text("value = object()  # edited\n")
    assert load_file(file, "a task").value is not first.value
    file.write_text("raise ValueError\n")
    for _ in range(2):
        with pytest.raises(InputError, match="line 1: ValueError"):
            load_file(file, "a task")


def test_a_file_that_exits_is_an_error_of_the_file(tmp_path: Path):
    file = tmp_path / "leaving.py"
    file.write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(InputError, match=r"leaving.py, line 2: SystemExit: 0"):
        load_file(file, "a task")


def test_a_name_that_is_too_long_for_a_file_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="File name too long; it should be a file that defines a task"):
        load_file(tmp_path / f"{'a' * 300}.py", "a task")
