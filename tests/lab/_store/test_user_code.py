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
