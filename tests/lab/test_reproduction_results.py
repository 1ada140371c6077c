"""results/reproduction: its page is what the stored runs say, and its own words are the page's."""

import json
import shutil
from pathlib import Path

import pytest

from adamplus.lab.data._root import VARIABLE
from adamplus.lab.reproduce import _reproduce
from adamplus.lab.reproduce._experiments import NAMES
from adamplus.lab.reproduce._growth import growth

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
    quick = {name: 100 * _last("paper-quick/cifar10", name)["test_accuracy"] for name in ("nigt", "msgd", "adam-plus")}
    form = "NIGT {nigt:.1f} % test accuracy, momentum SGD {msgd:.1f} %, Adam⁺ {adam-plus:.1f} %"
    assert form.format(**quick) in said
    plus, msgd = (_lines("paper/cifar10", name) for name in ("adam-plus", "msgd"))
    at = {epoch: [100 * one[epoch - 1]["test_accuracy"] for one in (plus, msgd)] for epoch in (10, 154, 350)}
    assert f"momentum SGD ends at {at[350][1]:.1f} % test accuracy, Adam⁺ at {at[350][0]:.1f} %" in said
    assert f"ahead through epoch 15 (after ten, {at[10][0]:.1f} and {at[10][1]:.1f} %)" in said
    ahead = [a["test_accuracy"] > b["test_accuracy"] for a, b in zip(plus, msgd, strict=True)]
    assert all(ahead[:15])
    assert not ahead[15]
    assert sum(ahead[38:]) == 1  # "behind from epoch 39 on but for one"
    assert f"Its η is {plus[38]['eta']:.3f} there" in said
    assert f"{100 * plus[153]['running_accuracy']:.1f} % and {at[154][0]:.1f} % are reached already" in said
    found = growth(plus)
    assert found is not None
    assert f"kink at {found.knee:,.0f} (epoch {found.knee / 391:.0f})" in said
    assert f"{plus[-1]['seconds'] / 350:.3f} s of training an epoch ({plus[-1]['seconds']:.0f} s)" in said
    text = {name: [line["test_perplexity"] for line in _lines("paper-6-epochs/wikitext2", name)] for name in NAMES}
    last = {name: f"{values[-1]:.1f}" for name, values in text.items()}
    order = "SGD {sgd}, Adam {adam}, NIGT {nigt}, Adam⁺ {adam-plus}, momentum SGD {msgd}, AdaGrad {adagrad}"
    assert order.format(**last) in said
    lines = _lines("paper-6-epochs/wikitext2", "adam-plus")
    assert {f"{line['norm']:.2f}" for line in lines[1:]} == {"0.22", "0.23"}
    assert {f"{line['eta']:.0f}" for line in lines[1:]} == {"38"}
    assert "‖z‖ stays at 0.22 to 0.23 from the second epoch on" in said
    assert "η = 38, where SGD's own is 20" in said
    assert {line["lr"] for name in ("adam-plus", "sgd") for line in _lines("paper-6-epochs/wikitext2", name)} == {20.0}
    second = [values[1] for values in (text["adam-plus"], text["sgd"])]
    assert "After two epochs Adam⁺ was close to SGD ({:.0f} and {:.0f})".format(*second) in said


def _last(folder: str, optimizer: str) -> dict[str, float]:
    return _lines(folder, optimizer)[-1]


def _lines(folder: str, optimizer: str) -> list[dict[str, float]]:
    (path,) = (RESULTS / folder).glob(f"runs/*/{optimizer}/*/metrics.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]
