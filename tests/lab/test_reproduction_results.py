"""results/reproduction: its page is what the stored runs say, and its own words are the page's."""

import json
import re
import shutil
from pathlib import Path

import pytest

from adamplus.lab.data._root import VARIABLE
from adamplus.lab.reproduce import _reproduce

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


def test_every_number_of_the_readme_is_of_the_page():
    page, readme = ((RESULTS / name).read_text() for name in ("claims.md", "README.md"))
    on_page = [float(number) for number in re.findall(r"\b\d+\.\d+", page)]
    losses = re.findall(r"\b\d\.\d\d\b(?! %)", readme.partition("AN4")[2].partition("With β")[0])
    percent = [float(number) / 100 for number in re.findall(r"(\d\d\.\d) %", readme)]
    assert len(losses) >= 6
    assert percent
    for said, digits in ((map(float, losses), 2), (percent, 3)):
        assert all(any(abs(number - value) <= 0.51 * 10**-digits for number in on_page) for value in said)
