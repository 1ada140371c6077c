"""Imports of a user's task from its own folder: they work, and are part of its digest."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adamplus.lab import tasks
from adamplus.lab._store import imports as _imports
from adamplus.lab._store.code_digest import digest
from adamplus.lab._store.imports import imported
from adamplus.lab._store.user_code import load_file
from adamplus.lab.errors import InputError

TASK = '''"""A line."""
import torch
from adamplus.lab.tasks import Task
from own_models.nets import line

class Line(Task):
    def data(self):
        import own_numbers
        x = torch.linspace(-1, 1, 40).unsqueeze(1)
        return {"train": (x, own_numbers.SLOPE * x), "validation": (x, x), "test": (x, x)}

    def model(self):
        return line()

    def loss(self, outputs, y):
        return (outputs - y).square().mean()
'''


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # cached bytecode hides an edit within the same second
    monkeypatch.setattr(_imports, "_read", {})
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("own_", "adamplus_file_")):
            del sys.modules[name]


def written(folder: Path) -> Path:
    (folder / "own_models" / "parts").mkdir(parents=True)
    (folder / "own_models" / "__init__.py").write_text("")
    (folder / "own_models" / "nets.py").write_text("from .parts.layers import layer\nline = layer\n")
    (folder / "own_models" / "parts" / "__init__.py").write_text("from ..sizes import WIDTH\n")
    (folder / "own_models" / "parts" / "layers.py").write_text(
        "from torch import nn\nfrom . import WIDTH\ndef layer():\n    return nn.Linear(1, WIDTH)\n"
    )
    (folder / "own_models" / "sizes.py").write_text("WIDTH = 1\n")
    (folder / "own_numbers.py").write_text("SLOPE = 2.0\n")
    task = folder / "task.py"
    task.write_text(TASK)
    return task


def test_a_task_can_import_its_neighbours(tmp_path: Path):
    task, _ = tasks.find(str(written(tmp_path)))
    assert task.model()(task.data()["train"][0]).shape == (40, 1)


def test_exactly_the_imported_neighbours_are_found(tmp_path: Path):
    found = imported(written(tmp_path))
    inner = ("nets", "parts", "parts.layers", "sizes")
    assert list(found) == ["own_models", *(f"own_models.{name}" for name in inner), "own_numbers"]
    assert found["own_models.parts"] == tmp_path / "own_models" / "parts" / "__init__.py"
    task, _ = tasks.find(str(tmp_path / "task.py"))
    task.data()
    assert imported(tmp_path / "task.py") == found  # also after they were imported


@pytest.mark.parametrize("name", ["own_models/sizes.py", "own_models/parts/layers.py", "own_numbers.py"])
def test_the_digest_of_a_task_changes_with_what_it_imports(name: str, tmp_path: Path):
    task = written(tmp_path)
    before = digest(task)
    file = tmp_path / name
    file.write_text("# why\n" + file.read_text())
    assert digest(task) == before
    file.write_text(file.read_text() + "MORE = 1\n")
    assert digest(task) != before


def test_a_file_that_was_edited_after_it_was_imported_is_refused(tmp_path: Path):
    task = written(tmp_path)
    load_file(task, "a task")
    load_file(task, "a task")
    (tmp_path / "own_models" / "sizes.py").write_text("WIDTH = 2\n")
    with pytest.raises(InputError, match=r"sizes\.py has changed since this process imported it"):
        load_file(task, "a task")


def test_two_modules_with_the_same_name_are_refused(tmp_path: Path):
    one, other = (written(tmp_path / name) for name in ("one", "other"))
    load_file(one, "a task")
    with pytest.raises(InputError, match=r"imports own_models, which may be .*other.* or .*one.*: rename one of them"):
        load_file(other, "a task")
    late = tmp_path / "late" / "task.py"
    late.parent.mkdir()
    late.write_text("def data():\n    import own_numbers\n")
    (late.parent / "own_numbers.py").write_text("SLOPE = 3.0\n")
    with pytest.raises(InputError, match=r"imports own_numbers, which may be .*late.* or .*one.*: rename one of them"):
        load_file(late, "a task")


def test_a_later_folder_does_not_hide_modules_of_an_earlier_one(tmp_path: Path):
    """The second file does not import the module that has the same name in its folder."""
    first, second = written(tmp_path / "one"), tmp_path / "two" / "task.py"
    second.parent.mkdir()
    second.write_text("")
    (second.parent / "own_numbers.py").write_text("SLOPE = 3.0\n")
    task, _ = tasks.find(str(first))
    load_file(second, "a task")
    x, y = task.data()["train"]
    assert (y == 2 * x).all()


def test_files_named_like_installed_modules_do_not_replace_them(tmp_path: Path):
    """A module of the standard library, and an installed package with the name of the file itself."""
    (tmp_path / "random.py").write_text("raise ImportError")
    (tmp_path / "selenium.py").write_text("import random\nimport selenium\nvalue = random.Random, selenium.__file__\n")
    assert imported(tmp_path / "selenium.py") == {}
    assert "site-packages" in load_file(tmp_path / "selenium.py", "a task").value[1]


def test_folders_need_no_init_file(tmp_path: Path):
    inner = tmp_path / "own_a" / "own_b"
    inner.mkdir(parents=True)
    (inner / "nets.py").write_text("WIDTH = 3\n")
    (tmp_path / "task.py").write_text("import own_a.own_b.nets as nets\n")
    assert list(imported(tmp_path / "task.py")) == ["own_a.own_b.nets"]
    assert load_file(tmp_path / "task.py", "a task").nets.WIDTH == 3


def test_a_link_and_its_target_are_the_same_file(tmp_path: Path):
    (tmp_path / "elsewhere.py").write_text("WIDTH = 3\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "own_linked.py").symlink_to(tmp_path / "elsewhere.py")
    (folder / "task.py").write_text("import own_linked\n")
    for _ in range(2):
        load_file(folder / "task.py", "a task")
    (tmp_path / "again").symlink_to(folder)
    load_file(tmp_path / "again" / "task.py", "a task")


def test_two_files_of_one_folder_share_their_neighbours(tmp_path: Path):
    task = written(tmp_path)
    (tmp_path / "more.py").write_text("from task import Line\nimport own_numbers\n")
    load_file(task, "a task")
    assert "task" in imported(tmp_path / "more.py")
    load_file(tmp_path / "more.py", "a task")


def test_relative_imports_without_a_package_and_syntax_errors_are_left_to_python(tmp_path: Path):
    (tmp_path / "task.py").write_text("from . import own_numbers\nimport no_such_module.inside\n")
    assert imported(tmp_path / "task.py") == {}
    (tmp_path / "task.py").write_text("def\n")
    assert imported(tmp_path / "task.py") == {}
    with pytest.raises(InputError, match="line 1: "):
        load_file(tmp_path / "task.py", "a task")


def test_a_star_stands_for_all_modules_of_a_package(tmp_path: Path):
    """`__all__` decides which of them Python imports."""
    task = written(tmp_path)
    (tmp_path / "own_models" / "unused.py").write_text("")
    task.write_text("from own_models import *\nfrom own_numbers import *\n")
    inner = ("nets", "parts", "parts.layers", "sizes", "unused")
    assert list(imported(task)) == ["own_models", *(f"own_models.{name}" for name in inner), "own_numbers"]
    (tmp_path / "own_models" / "nets.py").write_text("from .parts import *\n")
    assert "own_models.parts.layers" in imported(task)
    task.write_text("from . import *\nfrom json import *\n")
    assert imported(task) == {}
