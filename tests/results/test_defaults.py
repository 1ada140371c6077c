"""The tables of results/defaults/README.md are those of the stored runs."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "results" / "defaults" / "README.md"


def test_the_tables_are_of_the_stored_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    page = PAGE.read_text()
    study = runpy.run_path(str(ROOT / "benchmarks" / "defaults.py"))
    assert study["markdown"](study["stored"]()) in page
    decay = runpy.run_path(str(ROOT / "benchmarks" / "decay.py"))
    assert decay["tables"](json.loads((PAGE.parent / "decay.json").read_text())) in page


def test_the_row_of_cifar10_is_of_the_stored_search():
    rows: list[tuple[float, float]] = []
    for path in (ROOT / "results/reproduction/tuned-quick/cifar10").rglob("settings.json"):
        spec = json.loads(path.read_text())["spec"]
        if spec["optimizer"] == "adam-plus" and spec["phase"] == "search":
            last = json.loads((path.parent / "metrics.jsonl").read_text().splitlines()[-1])
            rows.append((spec["settings"]["lr"], last["validation_accuracy"]))
    rows.sort()
    page = PAGE.read_text()
    assert f"| lr | {' | '.join(f'{lr:g}' for lr, _ in rows)} |" in page
    assert f"| validation accuracy, % | {' | '.join(f'{100 * value:.2f}' for _, value in rows)} |" in page
