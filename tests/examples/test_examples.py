"""The examples run, at a size of seconds, and learn."""

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """A function that runs an example with options, in an empty folder, and returns what it prints."""
    monkeypatch.chdir(tmp_path)

    def example(name: str, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *options])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return example


def numbers(printed: str, pattern: str) -> list[float]:
    return [float(number) for number in re.findall(pattern, printed)]


def test_digits(run: Any):
    accuracies = numbers(run("digits.py", "--epochs", "4"), r"accuracy ([0-9.]+)")
    assert len(accuracies) == 4
    assert accuracies[-1] > 0.85


def test_cifar10(run: Any, tmp_path: Path):
    from data.writers import write_cifar  # pyright: ignore[reportMissingImports] - in tests/lab

    write_cifar(tmp_path, rows=30)
    printed = run("cifar10.py", "--data", str(tmp_path), "--epochs", "6", "--width", "4", "--images", "30")
    losses = numbers(printed, r"loss ([0-9.]+)")
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    assert len(numbers(printed, r"at w ([0-9.]+)")) == 6


def test_finetune_bert(run: Any, tmp_path: Path):
    printed = run("finetune_bert.py", "--reviews", "640", "--epochs", "2", "--out", str(tmp_path))
    assert "'optimizer/norm'" not in printed  # 40 steps: the first line of the log is at step 50
    assert (tmp_path / "model.safetensors").exists()
    assert numbers(printed, r"accuracy at w: ([0-9.]+)")


@pytest.mark.slow
def test_finetune_bert_learns(run: Any, tmp_path: Path):
    printed = run("finetune_bert.py", "--out", str(tmp_path))
    assert "'optimizer/norm'" in printed
    assert numbers(printed, r"accuracy at w: ([0-9.]+)")[0] > 0.95


@pytest.mark.parametrize("optimizer", ["spectral-plus", "adamw"])
def test_gpt_spectral(run: Any, optimizer: str):
    rate = "0.02" if optimizer == "spectral-plus" else "0.002"
    printed = run("gpt_spectral.py", "--steps", "30", "--width", "32", "--optimizer", optimizer, "--lr", rate)
    (validation,) = numbers(printed, r"validation ([0-9.]+)")
    assert validation < 5.0  # 5.7 at first
    assert ("queries, keys, values" in printed) == (optimizer == "spectral-plus")


@pytest.mark.slow
def test_gpt_spectral_learns_more_than_single_bytes(run: Any):
    """2.9 nats per byte is what the frequencies of bytes alone give on this text."""
    assert numbers(run("gpt_spectral.py"), r"validation ([0-9.]+)")[-1] < 1.7


def test_the_notebook_runs_and_has_its_pictures(monkeypatch: pytest.MonkeyPatch):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(len(plt.get_fignums())))
    notebook = json.loads((EXAMPLES / "two_points.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for i, cell in enumerate(code):
        exec(compile("".join(cell["source"]), f"two_points.ipynb, cell {i + 1}", "exec"), names)
    plt.close("all")
    pictures = [output for cell in code for output in cell["outputs"] if "image/png" in output.get("data", {})]
    assert len(shown) == len(pictures) == 3
