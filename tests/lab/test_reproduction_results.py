"""results/reproduction: its page is what the stored runs say, and its own words are the page's."""

import json
import shutil
from pathlib import Path

import pytest

from adamplus.lab.data._root import VARIABLE
from adamplus.lab.reproduce import _reproduce
from adamplus.lab.reproduce._experiments import NAMES

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results" / "reproduction"


def test_the_page_is_made_of_the_stored_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    copy = Path("results", "reproduction")
    shutil.copytree(RESULTS, tmp_path / copy, ignore=shutil.ignore_patterns("claims.md", "figures"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nothing"))
    made = _reproduce.reproduce([], out=copy)
    assert made.page.read_text() == (RESULTS / "claims.md").read_text()
    assert {path.name for path in made.figures} == {path.name for path in (RESULTS / "figures").iterdir()}


def test_nothing_is_stored_but_what_runs_leave():
    names = {path.name for path in RESULTS.glob("*/*/runs/**/*") if path.is_file()}
    assert names == {"settings.json", "metrics.jsonl", "end.json"}
    for path in RESULTS.glob("*/*/runs/**/end.json"):
        assert json.loads(path.read_text())["status"] in ("finished", "diverged")


def test_the_readme_has_the_numbers_of_the_runs():
    said = " ".join((RESULTS / "README.md").read_text().split())
    loss = {name: _last("paper/an4", name)["test_loss"] for name in NAMES}
    assert (
        f"Adam {loss['adam']:.2f} (held-out loss), NIGT {loss['nigt']:.2f}, momentum SGD {loss['msgd']:.2f}, "
        f"AdaGrad and SGD {loss['adagrad']:.2f} and {loss['sgd']:.2f}, Adam⁺ {loss['adam-plus']:.2f}"
    ) in said
    assert f"a run is {_last('paper/an4', 'adam-plus')['step']} steps" in said
    assert f"η is {_lines('paper/an4', 'adam-plus')[9]['eta']:.4f} in its first ten epochs" in said
    accuracy = {name: 100 * _last("paper-quick/cifar10", name)["test_accuracy"] for name in ("msgd", "adam-plus")}
    assert f"momentum SGD {accuracy['msgd']:.1f} % test accuracy, Adam⁺ {accuracy['adam-plus']:.1f} %" in said


def _last(folder: str, optimizer: str) -> dict[str, float]:
    return _lines(folder, optimizer)[-1]


def _lines(folder: str, optimizer: str) -> list[dict[str, float]]:
    (path,) = (RESULTS / folder).glob(f"runs/*/{optimizer}/*/metrics.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]
