"""Digests of code."""

from pathlib import Path

import pytest
import torch

from adamplus.lab._store import code_digest
from adamplus.lab._store.code_digest import digest, own_digest


@pytest.mark.parametrize(
    ("edited", "same"),
    [
        (
            '"""Other words,\non lines."""\n# and more\n\ndef f(x):\n\n    # why\n    """Twice."""\n    return 2 * x\n',
            True,
        ),
        ('"""A file."""\ndef f(x):\n    """Twice."""\n    return 3 * x\n', False),
        ('"""A file."""\ndef f(x):\n    return 2 * x\n', True),
        ('"""A file."""\ndef f(x): "Twice."; return 3 * x\n', False),
        ('"""A file."""\ndef f(x):\n    """Twice."""\n    return (2 * # why\n            x)\n', True),
        ('"""A file."""\nNAME = """words"""\ndef f(x):\n    """Twice."""\n    return 2 * x\n', False),
    ],
)
def test_a_digest_depends_on_code_and_not_on_comments(edited: str, same: bool, tmp_path: Path):
    file, other = tmp_path / "a.py", tmp_path / "b.py"
    file.write_text('"""A file."""\n\n\ndef f(x):\n    """Twice."""\n    return 2 * x\n')
    other.write_text(edited)
    assert (digest(file) == digest(other)) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('TEXT = """\n# one\n"""\n', 'TEXT = """\n# two\n"""\n'),
        ('TEXT = """a\nb"""\n', 'TEXT = """a\n\nb"""\n'),
        ('def lr(): "rate"; return 0.1\n', 'def lr(): "rate"; return 0.9\n'),
        ('class A: "doc"; batch = 8\n', 'class A: "doc"; batch = 64\n'),
        ('"""1"""\nn = int(__doc__)\n', '"""2"""\nn = int(__doc__)\n'),
        ('x = f"{1}"\n', 'x = f"{1} "\n'),
        ('x = f"""{1}\n# a"""\n', 'x = f"""{1}\n# b"""\n'),
        ("if x:\n    a()\n    b()\n", "if x:\n    a()\nb()\n"),
    ],
)
def test_different_programs_have_different_digests(one: str, other: str, tmp_path: Path):
    (tmp_path / "a.py").write_text(one)
    (tmp_path / "b.py").write_text(other)
    assert digest(tmp_path / "a.py") != digest(tmp_path / "b.py")


def test_the_own_digest_covers_torch_and_all_files_of_the_rooms(monkeypatch: pytest.MonkeyPatch):
    seen: list[Path] = []
    read = code_digest._content
    monkeypatch.setattr(code_digest, "_content", lambda path: seen.append(path) or read(path))
    before = own_digest.__wrapped__()
    package = Path(code_digest.__file__).parents[2]
    for room in ("optim", "lab/_run", "lab/models"):
        assert set((package / room).rglob("*.py")) < set(seen)
    assert package / "optim" / "_execution" / "native.c" in seen
    assert package / "lab" / "_run" / "learner.py" in seen
    monkeypatch.setattr(torch, "__version__", "another")
    assert own_digest.__wrapped__() != before


def test_code_that_is_nested_too_deep_is_digested_with_comments(tmp_path: Path):
    file = tmp_path / "deep.py"
    file.write_text("x = " + " + ".join(["1"] * 5000) + "\n")
    assert code_digest._content(file) == file.read_bytes()
