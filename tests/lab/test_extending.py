"""docs/extending.md is correct: its files work as they are, and its messages are the real ones."""

import csv
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adamplus.cli import app
from adamplus.lab import optimizers, tasks
from adamplus.lab.errors import InputError

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = {
    name: f"# {name}\n{code}"
    for name, code in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's files."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_one_file_for_each_and_the_task_is_short():
    assert list(FILES) == ["my_task.py", "my_optimizer.py"]
    assert len(FILES["my_task.py"].splitlines()) <= 40


@pytest.mark.usefixtures("folder")
def test_the_documents_code_runs_in_a_comparison():
    (line,) = re.findall(r"^    adamplus (compare my_task\.py --optimizers .*)$", PAGE, flags=re.MULTILINE)
    done = CliRunner().invoke(app, [*line.split(), "--seeds", "1", "--epochs", "5", "--workers", "1"])
    assert done.exit_code == 0, done.output
    with Path("runs", "table.csv").open() as file:
        accuracy = {row["optimizer"]: float(row["mean"]) for row in csv.DictReader(file)}
    assert accuracy.keys() == {"adam-plus", "adam", "my_optimizer.py"}
    assert accuracy["my_optimizer.py"] > 0.8  # by chance, 0.5; untuned, and a quarter of the epochs
    assert Path("runs", "report.html").exists()


@pytest.mark.usefixtures("folder")
def test_the_documents_optimizer_is_set_from_the_command_line():
    assert optimizers.parse("my_optimizer.py:momentum=0.5") == ("my_optimizer.py", {"momentum": 0.5})


def test_attributes_and_methods_are_those_of_a_task():
    named = set(re.findall(r"^\| `(\w+)[`(]", PAGE, flags=re.MULTILINE))
    own = {name for name in vars(tasks.Task) if not name.startswith("_")}
    assert named | {"data", "model", "loss"} == own
    for name, default in re.findall(r"^\| `(\w+)` \| `?([^`|]+?)`? \|", PAGE, flags=re.MULTILINE):
        assert repr(getattr(tasks.Task, name)).replace("'", '"') == default


def pattern(message: str, folder: Path | None = None) -> str:
    """Pattern of an error that the page has, too. On the page, the files are in the current folder."""
    assert f"`{message}`" in PAGE
    return f"^{re.escape(str(folder / message) if folder else message)}$"


def test_messages_are_the_real_ones(folder: Path):
    with pytest.raises(InputError, match=pattern("my_tsk.py: there is no such file; it should define a task")):
        tasks.find("my_tsk.py")
    whole = FILES["my_task.py"]
    broken = {
        whole.replace("import torch\n", "import tork\n", 1): (
            "my_task.py, line 4: ModuleNotFoundError: No module named 'tork'"
        ),
        whole.replace("def loss", "def lost"): "my_task.py: TwoMoons must define loss(): see docs/extending.md",
        whole + "\n\nclass Other(TwoMoons):\n    pass\n": (
            "my_task.py must define exactly one subclass of Task, got 2: see docs/extending.md"
        ),
    }
    for code, message in broken.items():
        (folder / "my_task.py").write_text(code, encoding="utf-8")
        with pytest.raises(InputError, match=pattern(message, folder)):
            tasks.find(str(folder / "my_task.py"))
    for text, message in {
        "rms-prop": "unknown optimizer 'rms-prop': did you mean rmsprop?",
        "my_optimizer.py:momentun=1": "my_optimizer.py has no setting 'momentun': did you mean momentum?",
        "my_optimizer.py:momentum=high": (
            "momentum must be a number, True, False or None, got momentum=high in 'my_optimizer.py:momentum=high'"
        ),
    }.items():
        with pytest.raises(InputError, match=pattern(message)):
            optimizers.parse(text)
    (folder / "my_optimizer.py").write_text(FILES["my_optimizer.py"].replace("contender =", "mine ="))
    with pytest.raises(InputError) as error:
        optimizers.find("my_optimizer.py")
    assert f"``{error.value}``" in PAGE
