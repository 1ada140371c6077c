"""results/reproduction: its page is what the stored runs say, and its own words are the page's."""

import itertools
import json
import math
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from adamplus.lab._present.statistics import summarize
from adamplus.lab.data import VARIABLE
from adamplus.lab.reproduce import growth as _growth
from adamplus.lab.reproduce import reproduction as _reproduce
from adamplus.lab.reproduce.experiments import NAMES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "reproduction"


def test_the_page_is_made_of_the_stored_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    copy = Path("results", "reproduction")
    shutil.copytree(RESULTS, tmp_path / copy, ignore=shutil.ignore_patterns("claims.md", "figures"))
    for beside in ("theory/variance.json", "defaults/runs.jsonl", "lab/variants/table.csv"):
        (tmp_path / "results" / beside).parent.mkdir(parents=True)
        shutil.copy(ROOT / "results" / beside, tmp_path / "results" / beside)
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


@pytest.fixture(scope="module")
def readme() -> str:
    return " ".join((RESULTS / "README.md").read_text().split())


def cells(section: str, first: str) -> list[str]:
    """The cells after the first one in the only row of a section that begins with it."""
    text = (RESULTS / "README.md").read_text().split(f"\n{section}\n", 1)[1].split("\n## ")[0].split("\n### ")[0]
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in row.removesuffix("|").split("|")[2:]]


ORDER = ("adam-plus", "nigt", "sgd", "msgd", "adagrad", "adam")


def test_the_readme_begins_with_the_results(readme: str):
    head = (RESULTS / "README.md").read_text().split("\n## ")[0]
    conclusion = "**With the paper's settings, Adam⁺ is behind momentum SGD on CIFAR-10"
    assert head.index(conclusion) < head.index("| task |") < 500
    image = {name: _percent("paper/cifar10", name) for name in ("adam-plus", "msgd")}
    tuned = {name: [100 * run[-1]["test_accuracy"] for run in _runs("tuned-quick/cifar10", name)] for name in image}
    means = {name: summarize(values) for name, values in tuned.items()}
    texts = [f"{means[name].mean:.2f} ± {means[name].error:.2f} %" for name in image]
    assert (
        f"| CIFAR-10 | test accuracy | best of all | {image['adam-plus']} %, second of 2; momentum SGD "
        f"{image['msgd']} % | not run | {texts[0]}, first of 2; momentum SGD {texts[1]} |" in head
    )
    assert {path.name for path in (RESULTS / "paper" / "cifar10" / "runs" / "cifar10-paper").iterdir()} == set(image)
    hundred = {name: _last("paper/cifar100", name)["test_accuracy"] for name in ("adam-plus", "msgd", "sgd")}
    assert sorted(hundred, key=lambda name: -hundred[name]) == ["sgd", "msgd", "adam-plus"]
    assert f"| {100 * hundred['adam-plus']:.1f} %, third of 3; SGD {100 * hundred['sgd']:.1f} % | not run |" in head
    text = {name: _last("paper/wikitext2", name)["test_perplexity"] for name in ("adam-plus", "sgd")}
    assert f"| {text['adam-plus']:.1f}, first of 2; SGD {text['sgd']:.1f} | not run |" in head
    named = {"nigt": {"momentum": 0.9}, "adam-plus": {"beta": 0.9}}
    speech = {name: _last("paper/an4", name, **named.get(name, {}))["test_loss"] for name in NAMES}
    assert sorted(speech, key=lambda name: speech[name]).index("adam-plus") == 3
    poor = _last("paper/an4", "adam-plus", beta=0.01)["test_loss"]
    ends = {name: summarize([r[-1]["test_loss"] for r in _runs("tuned/an4", name)]) for name in ("adam-plus", "adam")}
    texts = [f"{one.mean:.3f} ± {one.error:.3f}" for one in ends.values()]
    assert (
        f"| {speech['adam-plus']:.2f} with β = 0.9, the best of three ({poor:.2f} with the paper's best, 0.01), fourth "
        f"of 6; Adam {speech['adam']:.2f} | not run | "
        f"{texts[0]}, third of 3; Adam {texts[1]} |" in head
    )
    assert not list(RESULTS.glob("*reading*"))  # "not run"


def test_the_readme_has_the_numbers_of_an4(readme: str):
    folder = "paper/an4"
    at = {
        ("Adam⁺", f"β = {beta}" + ", the paper's best" * (beta == 0.01)): _lines(folder, "adam-plus", beta=beta)
        for beta in (0.01, 0.1, 0.9)
    }
    at |= {("NIGT", f"momentum {m}"): _lines(folder, "nigt", momentum=m) for m in (0.01, 0.1, 0.9)}
    others = {"adam": "Adam", "msgd": "momentum SGD", "adagrad": "AdaGrad", "sgd": "SGD"}
    at |= {(title, ""): _lines(folder, name) for name, title in others.items()}
    best = min(at["Adam", ""], key=lambda line: line["test_loss"])
    extra = {("Adam", ""): f" ({best['test_loss']:.2f} at its best, after epoch {best['epoch']})"}
    text = (RESULTS / "README.md").read_text().split("### AN4\n")[1].split("\n## ")[0]
    rows = []
    for (title, settings), lines in at.items():
        loss = f"{lines[-1]['test_loss']:.2f}{extra.get((title, settings), '')}"
        rows.append(f"| {title} |{f' {settings}' * bool(settings)} | {loss} |")
    assert sorted(line for line in text.splitlines() if line.startswith("| ") and "optimizer" not in line) == sorted(
        rows
    )
    eta = [lines[9]["eta"] for (title, _), lines in at.items() if title == "Adam⁺"]
    form = "Its η after ten epochs is {:.4f}, with β = 0.1 {:.3f}, and with β = 0.9 {:.3f}."
    assert form.format(*eta) in readme
    assert f"A run has {at['SGD', ''][-1]['step']} steps here." in readme


def test_the_readme_has_the_numbers_of_the_quick_forms(readme: str):
    for title, folder in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100")):
        found = cells(f"### {title}", "35 epochs (`--quick`)")
        assert found == [f"{_percent(f'paper-quick/{folder}', name)} %" for name in ORDER]
    curves = {name: [line["test_accuracy"] for line in _lines("paper-quick/cifar10", name)] for name in NAMES}
    behind = {name: sum(a <= b for a, b in zip(curves[name], curves["adam-plus"], strict=True)) for name in curves}
    assert (behind["nigt"], behind["adam"]) == (0, 2)
    assert "NIGT is ahead of Adam⁺ in every epoch, and Adam in all but two." in readme
    fifth = {name: 100 * _lines("paper-quick/cifar100", name)[4]["test_accuracy"] for name in NAMES}
    assert max(fifth, key=lambda name: fifth[name]) == "adam-plus"
    hat = 100 * _lines("paper-quick/cifar100", "adam-plus")[4]["test_accuracy_hat"]
    form = "after five epochs it has {adam-plus:.1f} % ({hat:.1f} % at ŵ), NIGT {nigt:.1f} % and SGD {sgd:.1f} %"
    assert form.format(**fifth, hat=hat) in readme


def test_the_readme_has_the_numbers_of_350_epochs(readme: str):
    plus, msgd = (_lines("paper/cifar10", name) for name in ("adam-plus", "msgd"))
    at = {epoch: [100 * one[epoch - 1]["test_accuracy"] for one in (plus, msgd)] for epoch in (10, 154, 350)}
    ends = [f"{value:.1f} %" for value in at[350]]
    assert cells("### CIFAR-10", "350 epochs") == [ends[0], "not run", "not run", ends[1], "not run", "not run"]
    hat = 100 * plus[9]["test_accuracy_hat"]
    form = f"through epoch 15 (after ten epochs {at[10][0]:.1f} and {at[10][1]:.1f} %; at ŵ it has {hat:.1f} %)"
    assert form in readme
    ahead = [a["test_accuracy"] > b["test_accuracy"] for a, b in zip(plus, msgd, strict=True)]
    assert all(ahead[:15])
    assert not ahead[15]
    assert sum(ahead[38:]) == 1
    assert "From epoch 39 on it is behind in all epochs but one." in readme
    assert f"At epoch 39 its η is {plus[38]['eta']:.3f}." in readme
    form = f"{100 * plus[153]['running_accuracy']:.1f} % training accuracy and {at[154][0]:.1f} % test accuracy are"
    assert form in readme


def test_the_readme_has_the_numbers_of_350_epochs_on_cifar100(readme: str):
    curves = {name: _lines("paper/cifar100", name) for name in ("adam-plus", "sgd", "msgd")}
    ends = {name: 100 * lines[-1]["test_accuracy"] for name, lines in curves.items()}
    assert cells("### CIFAR-100", "350 epochs") == [
        f"{ends[name]:.1f} %" if name in ends else "not run" for name in ORDER
    ]
    form = "CIFAR-100 {adam-plus:.1f} %, SGD {sgd:.1f} %"
    assert form.format(**ends) in " ".join((ROOT / "README.md").read_text().split())
    assert min(lines[-1]["running_accuracy"] for lines in curves.values()) > 0.998
    plus, sgd, msgd = curves.values()
    ahead = {name: [a[name] > b[name] for a, b in zip(plus, sgd, strict=True)] for name in SHOWN}
    assert ahead["running_accuracy"].index(False) == 144
    assert "Adam⁺ is ahead of SGD through epoch 144 and level with it later" in readme
    gap = [a["running_accuracy"] - b["running_accuracy"] for a, b in zip(plus[144:], sgd[144:], strict=True)]
    assert max(map(abs, gap)) < 0.002
    assert all(a["running_accuracy"] > b["running_accuracy"] for a, b in zip(plus, msgd, strict=True))
    assert ahead["test_accuracy"].index(False) == 34
    assert not any(ahead["test_accuracy"][43:])
    assert ahead["test_accuracy"][42]
    ten = [100 * value for value in (plus[9]["test_accuracy"], sgd[9]["test_accuracy"], plus[9]["test_accuracy_hat"])]
    form = "up to epoch 34 (after ten epochs {:.1f} and {:.1f} %; at ŵ it has {:.1f} %). From epoch 44 on"
    assert form.format(*ten) in readme


def test_only_the_first_run_of_a_command_has_the_start(readme: str):
    sgd, msgd = (_lines("paper/cifar100", name) for name in ("sgd", "msgd"))
    starts = [lines[0]["wall_seconds"] for lines in (sgd, msgd)]
    ends = [lines[-1]["wall_seconds"] for lines in (sgd, msgd)]
    assert f"SGD on CIFAR-100 took {starts[0]:.1f} s until its first epoch had ended, and momentum SGD, after" in readme
    assert f"in the same process, {starts[1]:.1f} s. They took {ends[0]:.1f} and {ends[1]:.1f} s to the end" in readme


def test_the_table_of_times_is_of_the_stored_runs():
    found = {key: _lines(f"paper/{key}", "adam-plus") for key in ("cifar10", "cifar100", "wikitext2")}
    spans = [lines[-1]["wall_seconds"] - lines[0]["wall_seconds"] for lines in found.values()]
    last = [lines[-1] for lines in found.values()]
    trained = [line["seconds"] / line["epoch"] for line in last]
    assert cells("## Times", "training, an epoch") == [
        f"{seconds:.{digits}f} s" for seconds, digits in zip(trained, (3, 3, 1), strict=True)
    ]
    assert cells("## Times", "training, all epochs")[:2] == [f"{line['seconds']:.0f} s" for line in last[:2]]
    by_the_clock = [span / (len(lines) - 1) for span, lines in zip(spans, found.values(), strict=True)]
    assert cells("## Times", "by the clock, an epoch, with evaluation and checkpoints") == [
        f"{seconds:.{digits}f} s" for seconds, digits in zip(by_the_clock, (3, 3, 1), strict=True)
    ]
    assert cells("## Times", "end of the first epoch to end of the last") == [
        f"{span:.{digits}f} s" for span, digits in zip(spans, (1, 1, 0), strict=True)
    ]
    assert cells("## Times", "with the start") == [f"{line['wall_seconds']:.1f} s" for line in last]


def test_the_readme_says_where_norms_flatten_whatever_the_windows(readme: str, monkeypatch: pytest.MonkeyPatch):
    both = [_lines(f"paper/{name}", "adam-plus") for name in ("cifar10", "cifar100")]
    places = {}
    for part in (10, 20, 40, 80):
        monkeypatch.setattr(_growth, "PART", part)
        found = [_growth.growth(lines) for lines in both]
        places[part] = [one.knee for one in found if one is not None and one.flattens]
    assert places[20] == [60_214, 60_214]
    assert "growth falls most at iteration 60,214, which is epoch 154." in readme
    for lines in both:
        norms = [lines[i]["norm_sum"] - lines[i - 1]["norm_sum"] for i in (149, 151)]  # of epochs 150 and 152
        assert norms[1] < norms[0] / 2
    assert "‖z‖ halves within the two epochs after the rate was first divided by ten, at 150 of 350" in readme
    epochs = [place / 391 for pair in places.values() for place in pair]
    assert (len(epochs), f"at epochs {min(epochs):.0f} to {max(epochs):.0f}" in readme) == (8, True)


def test_the_readme_has_the_numbers_of_wikitext2(readme: str):
    folder, section = "paper-6-epochs/wikitext2", "### WikiText-2"
    sgd = {rate: _lines(folder, "sgd", lr=rate)[-1] for rate in (20, 10, 5)}
    plus = {rate: _lines(folder, "adam-plus", lr=rate) for rate in (20, 10, 5)}
    at = {rate: lines[-1]["test_perplexity"] for rate, lines in plus.items()}
    text = {name: _last(folder, name)["test_perplexity"] for name in NAMES if name not in ("adam-plus", "sgd")}
    text |= {"sgd": sgd[20]["test_perplexity"], "adam-plus": at[10]}
    assert cells(section, "6 epochs") == [f"{text[name]:.1f}" for name in ORDER]
    assert cells(section, "Adam⁺, by α") == [f"{value:.1f}" for value in at.values()]
    assert cells(section, "SGD, by its rate") == [f"{one['test_perplexity']:.1f}" for one in sgd.values()]
    assert min(plus, key=lambda rate: plus[rate][-1]["validation_perplexity"]) == 10
    assert min(sgd, key=lambda rate: sgd[rate]["validation_perplexity"]) == 20
    later = [line for lines in plus.values() for line in lines[1:]]
    assert {f"{line['norm']:.2f}" for line in later} == {"0.22", "0.23"}
    assert {rate: f"{lines[-1]['eta']:.0f}" for rate, lines in plus.items()} == {20: "38", 10: "19", 5: "9"}
    assert "With α = 20 this is 38. With α = 10 it is 19, about SGD's 20." in readme
    adam = [line["test_perplexity"] for line in _lines(folder, "adam")]
    ahead = [a < b["test_perplexity"] for a, b in zip(adam, plus[10], strict=True)]
    assert ahead == [True] * 5 + [False]
    assert "Adam is ahead of Adam⁺ up to the fifth." in readme


def test_the_readme_has_the_numbers_of_40_epochs_of_wikitext2(readme: str):
    section = "### WikiText-2"
    plus, sgd = (_lines("paper/wikitext2", name) for name in ("adam-plus", "sgd"))
    assert (len(plus), len(sgd)) == (40, 40)
    ends = [f"{lines[-1]['test_perplexity']:.1f}" for lines in (plus, sgd)]
    assert cells(section, "40 epochs") == [ends[0], "not run", ends[1], "not run", "not run", "not run"]

    def both(name: str) -> list[float]:
        return [lines[-1][name] for lines in (plus, sgd)]

    found = cells(section, "validation perplexity, which the schedule uses")
    assert found[:2] == [f"{value:.1f}" for value in both("validation_perplexity")]
    dry, wet = both("train_perplexity"), both("running_perplexity")
    assert cells(section, "training perplexity without dropout") == [
        *(f"{value:.1f}" for value in dry),
        f"Adam⁺ {100 * (dry[0] / dry[1] - 1):.0f} % behind",
    ]
    assert cells(section, "training perplexity with dropout, mean over the epoch") == [
        *(f"{value:.1f}" for value in wet),
        f"Adam⁺ {100 * (wet[0] / wet[1] - 1):.1f} % behind, which counts as level",
    ]
    ahead = [a["train_perplexity"] < b["train_perplexity"] for a, b in zip(plus, sgd, strict=True)]
    assert ahead == [True] * 13 + [False] * 27
    assert "Adam⁺ is ahead up to epoch 13, and behind from there on" in readme
    eta = {line["lr"]: line["eta"] for line in plus}  # at the last epoch of each rate
    assert "({:.1f}, {:.2f}, {:.2f}, {:.3f})".format(*(eta[10 / 4**i] for i in range(4))) in readme


def test_the_older_run_of_wikitext2_took_as_long_as_the_readme_says(readme: str):
    older, _ = _runs("paper/wikitext2", "adam-plus")
    assert f"with SGD beside it from the sixth epoch on, took {older[-1]['wall_seconds']:.0f} s" in readme


def test_40_epochs_of_wikitext2_repeat_their_bits_in_another_session():
    older, newer = _runs("paper/wikitext2", "adam-plus")
    assert [_untimed(line) for line in older] == [_untimed(line) for line in newer]


def test_a_run_repeats_its_bits_in_another_session():
    """The first six epochs of 40 are the run of six, which ran beside others, and was evaluated without graphs."""
    for name in ("adam-plus", "sgd"):
        short, whole = (_lines(f"{form}/wikitext2", name, lr=SAME[name]) for form in ("paper-6-epochs", "paper"))
        for one, other in zip(short, whole[:6], strict=True):
            assert _untimed(one) == _untimed(other)


def test_a_run_on_an4_repeats_its_bits_in_another_session():
    older, newer = _runs("paper/an4", "adam-plus", beta=0.01)
    for one, other in zip(older, newer, strict=True):
        assert _untimed(one) | {"lr": None} == _untimed(other) | {"lr": None}
        assert one["lr"] == pytest.approx(other["lr"], rel=1e-6)  # told as the device's float32, and as it was set


@pytest.mark.parametrize("experiment", ["cifar10", "cifar100"])
def test_350_epochs_repeat_their_bits_in_another_session(experiment: str, readme: str):
    """All that training has told; evaluation takes more rows at once in the newer run."""
    older, newer = _runs(f"paper/{experiment}", "adam-plus")
    evaluated = {name for name in newer[0] if name.startswith("test_")}
    assert len(evaluated) == 4
    for one, other in zip(older, newer, strict=True):
        assert _trained(one) == _trained(other)
    most = {
        name: 100 * max(abs(one[name] - other[name]) for one, other in zip(older, newer, strict=True))
        for name in ("test_accuracy", "test_accuracy_hat")
    }
    assert most["test_accuracy"] < 0.235
    assert most["test_accuracy_hat"] < 0.025
    assert "Accuracy at w differs by up to 0.23 points, and at ŵ, where nothing is drawn, by 0.02" in readme


def test_the_readme_has_the_numbers_of_momentum_sgds_usual_recipe(readme: str):
    stored = ROOT / "results" / "recipe"
    recipe = [100 * run[-1]["test_accuracy"] for run in _runs(stored, "msgd")]
    plus = [100 * _lines("tuned-quick/cifar10", "adam-plus", seed=seed)[-1]["test_accuracy"] for seed in (1, 2, 3)]
    mean = summarize(recipe)
    assert f"it has {mean.mean:.2f} ± {mean.error:.2f} %" in readme
    ahead = [a - b for a, b in zip(plus, recipe, strict=True)]
    assert "Adam⁺ is ahead of it by {:.2f}, {:.2f} and {:.2f} points with the same seeds".format(*ahead) in readme
    for spec in _final(stored, "msgd").values():
        assert (spec["task"], spec["epochs"]) == ("cifar10", 35)
        assert spec["settings"] == {"momentum": 0.9, "lr": 0.1, "weight_decay": 0.0005}


def test_the_readme_has_the_numbers_of_the_tuned_comparison_on_an4(readme: str):
    names = ("adam", "msgd", "adam-plus")
    ends = {name: [run[-1]["test_loss"] for run in _runs("tuned/an4", name)] for name in names}
    assert [len(end) for end in ends.values()] == [3, 3, 3]
    means = [summarize(end) for end in ends.values()]
    ranked = [f"{mean.mean:.3f} ± {mean.error:.3f}" for mean in means]
    assert "held-out loss | {2} | {1} | **{0}** |".format(*ranked) in (ROOT / "README.md").read_text()
    chosen = {name: _settings("tuned/an4", name)["settings"] for name in names}
    trials = {name: _trials("tuned/an4", name) for name in names}
    assert [len(trial) for trial in trials.values()] == [8, 8, 8]
    tried = {
        name: sorted((trial for trial in found if math.isfinite(trial["validation_loss"])), key=_validation)
        for name, found in trials.items()
    }
    best, second = tried["adam-plus"][:2]
    assert {key: best[key] for key in chosen["adam-plus"]} == chosen["adam-plus"]
    assert best["beta"] == max(trial["beta"] for trial in trials["adam-plus"])
    at = {name: [_validation(trial) for trial in found] for name, found in tried.items()}
    assert {name: len(losses) for name, losses in at.items()} == {"adam": 8, "msgd": 7, "adam-plus": 8}
    own, msgd, adam = at["adam-plus"], at["msgd"], at["adam"]
    assert adam[4] < 2.6
    section = "### AN4, 20 epochs"
    assert cells(section, "Adam") == [
        ranked[0],
        f"rate {chosen['adam']['lr']:f}",
        f"five below 2.6, three of {adam[5]:.2f} or worse",
    ]
    assert cells(section, "momentum SGD") == [
        ranked[1],
        f"rate {chosen['msgd']['lr']}",
        f"{msgd[0]:.2f}, {msgd[1]:.2f}, five of {msgd[2]:.2f} or worse, one diverged",
    ]
    assert cells(section, "Adam⁺") == [
        ranked[2],
        "α = {lr}, β = {beta}".format(**chosen["adam-plus"]),
        f"{own[0]:.2f}, {own[1]:.2f} (α = {second['lr']}, β = {second['beta']}), six of {own[2]:.2f} or worse, "
        f"the last {own[-1]:,.0f}",
    ]
    assert f"Adam⁺ is behind on these {_last('tuned/an4', 'adam-plus', seed=1)['step']} steps" in readme
    together = [run[-1]["seconds"] for run in _runs("paper/an4", "adam-plus")[1:] + _runs("paper/an4", "nigt")[1:]]
    assert (len(together), f"took {min(together):.0f} to {max(together):.0f} s each" in readme) == (5, True)
    seconds = fmean(run[-1]["seconds"] for run in _runs("tuned/an4", "adam-plus"))
    assert f"{seconds:.1f} s of training a run" in readme
    assert 12 < min(together) / seconds < max(together) / seconds < 14


def test_the_readme_has_the_numbers_of_the_start_and_of_cudnns_choices():
    runs = json.loads((ROOT / "results" / "lab" / "h200-start.json").read_text())["runs"]
    first, again, by_timing, mode_b = runs.values()
    titles = {
        "compiled for the first time": first,
        "with torch's cache": again,
        "cuDNN chooses by timing (`--by-timing`): not taken, the bits would depend on it": by_timing,
        "cuDNN's other rule (`TORCH_CUDNN_USE_HEURISTIC_MODE_B=1`): not taken": mode_b,
    }
    for title, run in titles.items():
        found = cells("## Times", title)
        assert found[1:] == [f"{run['training']:.3f} s", f"{run['with_evaluation']:.3f} s"]
        if run in (first, again):
            assert found[0] == f"{run['set_up']:.1f} s"
    assert "--by-timing" in by_timing["command"]
    assert "TORCH_CUDNN_USE_HEURISTIC_MODE_B=1" in mode_b["command"]


def test_the_readme_has_the_numbers_of_the_tuned_comparison(readme: str):
    plus, msgd = (
        [_lines("tuned-quick/cifar10", name, seed=seed) for seed in (1, 2, 3)] for name in ("adam-plus", "msgd")
    )
    ends = [[100 * run[-1]["test_accuracy"] for run in runs] for runs in (plus, msgd)]
    means = [summarize(end) for end in ends]
    chosen = [_settings("tuned-quick/cifar10", name)["settings"] for name in ("adam-plus", "msgd")]
    for title, mean, settings in zip(("Adam⁺", "momentum SGD"), means, chosen, strict=True):
        assert cells("### CIFAR-10, 35 epochs", title) == [
            f"{mean.mean:.2f} ± {mean.error:.2f} %",
            str(settings["lr"]),
            f"{1e4 * settings['weight_decay']:.1f}·10⁻⁴",
        ]
    assert "ahead by {:.2f}, {:.2f} and {:.2f} points".format(*(a - b for a, b in zip(*ends, strict=True))) in readme
    mean = {name: [[fmean(run[i][name] for run in runs) for i in range(35)] for runs in (plus, msgd)] for name in SHOWN}
    ahead = {name: [a > b for a, b in zip(*curves, strict=True)] for name, curves in mean.items()}
    assert ahead["test_accuracy"] == [False] + [True] * 34
    assert ahead["running_accuracy"] == [False] * 24 + [True] * 11
    assert (
        f"after fifteen epochs {100 * mean['test_accuracy'][0][14]:.1f} and {100 * mean['test_accuracy'][1][14]:.1f} %"
        in readme
    )
    at = [100 * fmean(run[14][f"test_accuracy{end}"] for run in plus) for end in ("", "_hat")]
    form = f"at epoch 15, Adam⁺ has {at[0]:.1f} % at w and {at[1]:.1f} % at ŵ, and momentum SGD has"
    assert f"{form} {100 * mean['test_accuracy'][1][14]:.1f} %" in readme


def test_the_readme_says_how_far_apart_two_points_end(readme: str):
    most: dict[str, float] = {}
    for folder, name in itertools.product(("paper", "paper-quick", "tuned-quick"), ("adam-plus", "nigt")):
        for run in _runs(f"{folder}/cifar10", name) + _runs(f"{folder}/cifar100", name):
            apart = 100 * abs(run[-1]["test_accuracy"] - run[-1]["test_accuracy_hat"])
            most[name] = max(most.get(name, 0.0), apart)
    form = "Adam⁺'s w and ŵ are up to {adam-plus:.1f} points apart, NIGT's up to {nigt:.2f}."
    assert form.format(**most) in readme


SHOWN = ("test_accuracy", "running_accuracy")
SAME = {"adam-plus": 10, "sgd": 20}


def _untimed(line: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in line.items() if not name.endswith("seconds")}


def _trained(line: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in _untimed(line).items() if not name.startswith("test_")}


def _percent(folder: str, optimizer: str) -> str:
    return f"{100 * _last(folder, optimizer)['test_accuracy']:.1f}"


def _last(folder: str, optimizer: str, **asked: float) -> dict[str, float]:
    return _lines(folder, optimizer, **asked)[-1]


def _settings(folder: str, optimizer: str) -> dict[str, Any]:
    return next(iter(_final(folder, optimizer).values()))


def _lines(folder: str, optimizer: str, **asked: float) -> list[dict[str, float]]:
    """Metrics of the newest run whose specification or settings have what is asked for, of which there is one kind."""
    paths = _asked(folder, optimizer, asked)
    assert len({(spec["label"], spec["seed"]) for spec in paths.values()}) == 1
    return _metrics([*paths][-1])


def _runs(folder: str | Path, optimizer: str, **asked: float) -> list[list[dict[str, float]]]:
    """Metrics of all final runs that have what is asked for, the oldest first."""
    return [_metrics(path) for path in _asked(folder, optimizer, asked)]


def _asked(folder: str | Path, optimizer: str, asked: dict[str, float]) -> dict[Path, dict[str, Any]]:
    found = _final(folder, optimizer).items()
    return {
        path: spec for path, spec in found if all(v in (spec.get(k), spec["settings"].get(k)) for k, v in asked.items())
    }


def _validation(trial: dict[str, float]) -> float:
    return trial["validation_loss"]


def _trials(folder: str, optimizer: str) -> list[dict[str, float]]:
    """Settings of a search's trials, with their last metrics."""
    paths = (RESULTS / folder).glob(f"runs/*/{optimizer}/search-*")
    specs = {path: json.loads((path / "settings.json").read_text())["spec"] for path in paths}
    return [_metrics(path)[-1] | spec["settings"] for path, spec in specs.items()]


def _metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def _final(folder: str | Path, optimizer: str) -> dict[Path, dict[str, Any]]:
    """Specifications, those of the oldest runs first."""
    paths = (RESULTS / folder).glob(f"runs/*/{optimizer}/final-*")
    found = {path: json.loads((path / "settings.json").read_text()) for path in paths}
    return {path: found[path]["spec"] for path in sorted(found, key=lambda path: found[path]["started"])}
