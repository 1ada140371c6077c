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
def said() -> str:
    return " ".join((RESULTS / "README.md").read_text().split())


def test_the_readme_has_the_numbers_of_an4(said: str):
    folder, named = "paper/an4", {"adam-plus": {"beta": 0.01}, "nigt": {"momentum": 0.9}}
    loss = {name: _lines(folder, name, **named.get(name, {}))[-1]["test_loss"] for name in NAMES}
    assert (
        f"Adam {loss['adam']:.2f} (held-out loss), NIGT {loss['nigt']:.2f}, momentum SGD {loss['msgd']:.2f}, "
        f"AdaGrad and SGD {loss['adagrad']:.2f} and {loss['sgd']:.2f}, Adam⁺ {loss['adam-plus']:.2f}"
    ) in said
    plus = {beta: _lines(folder, "adam-plus", beta=beta) for beta in (0.01, 0.1, 0.9)}
    assert f"a run is {plus[0.01][-1]['step']} steps" in said
    eta = {beta: lines[9]["eta"] for beta, lines in plus.items()}
    assert f"η is {eta[0.01]:.4f} in its first ten epochs" in said
    ends = [plus[beta][-1]["test_loss"] for beta in (0.1, 0.9)]
    assert (
        f"0.1 and 0.9, it ends at {ends[0]:.2f} and {ends[1]:.2f}, with η at {eta[0.1]:.3f} and {eta[0.9]:.3f}" in said
    )
    ends = [_lines(folder, "nigt", momentum=momentum)[-1]["test_loss"] for momentum in (0.1, 0.01)]
    assert f"momenta, 0.1 and 0.01, end at {ends[0]:.2f} and {ends[1]:.2f}" in said
    best = min(_lines(folder, "adam"), key=lambda line: line["test_loss"])
    assert f"(Adam is at its best, {best['test_loss']:.2f}, at epoch {best['epoch']}.)" in said


def test_the_readme_has_the_numbers_of_the_quick_forms(said: str):
    ten = {name: _percent("paper-quick/cifar10", name) for name in NAMES}
    assert ten["sgd"] == ten["nigt"]
    form = "SGD and NIGT {sgd} %, Adam {adam} %, momentum SGD {msgd} %, AdaGrad {adagrad} %, Adam⁺ {adam-plus} %"
    assert form.format(**ten) in said
    curves = {name: [line["test_accuracy"] for line in _lines("paper-quick/cifar10", name)] for name in NAMES}
    behind = {name: sum(a <= b for a, b in zip(curves[name], curves["adam-plus"], strict=True)) for name in curves}
    assert (behind["nigt"], behind["adam"]) == (0, 2)
    assert "NIGT is ahead of Adam⁺ in every epoch, Adam in all but two." in said
    hundred = {name: _percent("paper-quick/cifar100", name) for name in NAMES}
    form = "SGD {sgd} %, NIGT {nigt} %, Adam {adam} %, Adam⁺ {adam-plus} %, AdaGrad {adagrad} %, momentum SGD {msgd} %"
    assert form.format(**hundred) in said
    fifth = {name: 100 * _lines("paper-quick/cifar100", name)[4]["test_accuracy"] for name in NAMES}
    assert max(fifth, key=lambda name: fifth[name]) == "adam-plus"
    hat = 100 * _lines("paper-quick/cifar100", "adam-plus")[4]["test_accuracy_hat"]
    form = "after five epochs {adam-plus:.1f} %, and at ŵ {hat:.1f} %; NIGT {nigt:.1f} %, SGD {sgd:.1f} %"
    assert form.format(**fifth, hat=hat) in said


def test_the_readme_has_the_numbers_of_350_epochs(said: str):
    plus, msgd = (_lines("paper/cifar10", name) for name in ("adam-plus", "msgd"))
    at = {epoch: [100 * one[epoch - 1]["test_accuracy"] for one in (plus, msgd)] for epoch in (10, 154, 350)}
    assert f"momentum SGD ends at {at[350][1]:.1f} % test accuracy, Adam⁺ at {at[350][0]:.1f} %" in said
    hat = 100 * plus[9]["test_accuracy_hat"]
    assert f"ahead through epoch 15 (after ten, {at[10][0]:.1f} and {at[10][1]:.1f} %; at ŵ it has {hat:.1f})" in said
    ahead = [a["test_accuracy"] > b["test_accuracy"] for a, b in zip(plus, msgd, strict=True)]
    assert all(ahead[:15])
    assert not ahead[15]
    assert sum(ahead[38:]) == 1  # "behind from epoch 39 on but for one"
    assert f"Its η is {plus[38]['eta']:.3f} there" in said
    assert f"{100 * plus[153]['running_accuracy']:.1f} % and {at[154][0]:.1f} % are reached already" in said


def test_the_readme_has_the_numbers_of_350_epochs_on_cifar100(said: str):
    curves = {name: _lines("paper/cifar100", name) for name in ("adam-plus", "sgd", "msgd")}
    ends = {name: 100 * lines[-1]["test_accuracy"] for name, lines in curves.items()}
    form = "SGD ends at {sgd:.1f} % test accuracy, momentum SGD at {msgd:.1f} %, Adam⁺ at {adam-plus:.1f} %"
    assert form.format(**ends) in said
    form = "CIFAR-100 {adam-plus:.1f} %, SGD {sgd:.1f} %"
    assert form.format(**ends) in " ".join((ROOT / "README.md").read_text().split())
    assert min(lines[-1]["running_accuracy"] for lines in curves.values()) > 0.998
    plus, sgd, msgd = curves.values()
    ahead = {name: [a[name] > b[name] for a, b in zip(plus, sgd, strict=True)] for name in SHOWN}
    assert ahead["running_accuracy"].index(False) == 144  # "up to epoch 144"
    assert ahead["test_accuracy"].index(False) == 34
    assert not any(ahead["test_accuracy"][43:])
    assert ahead["test_accuracy"][42]  # "behind from epoch 44 on"
    assert all(a["running_accuracy"] > b["running_accuracy"] for a, b in zip(plus, msgd, strict=True))
    ten = [100 * value for value in (plus[9]["test_accuracy"], sgd[9]["test_accuracy"], plus[9]["test_accuracy_hat"])]
    assert "(after ten, {:.1f} and {:.1f} %; at ŵ it has {:.1f})".format(*ten) in said


def test_only_the_first_run_of_a_command_has_the_start(said: str):
    sgd, msgd = (_lines("paper/cifar100", name) for name in ("sgd", "msgd"))
    starts = [lines[0]["wall_seconds"] for lines in (sgd, msgd)]
    ends = [lines[-1]["wall_seconds"] for lines in (sgd, msgd)]
    assert f"SGD on CIFAR-100 took {starts[0]:.1f} s until its first epoch had ended, and momentum SGD, after" in said
    assert f"in the same process, {starts[1]:.1f} s; {ends[0]:.1f} and {ends[1]:.1f} s to the end" in said
    plus = [_lines(f"paper/{name}", "adam-plus") for name in ("cifar10", "cifar100")]
    epochs = [lines[-1]["wall_seconds"] - lines[0]["wall_seconds"] for lines in plus]  # all but the first
    sums = [seconds + starts[1] for seconds in epochs]
    assert "would take {:.0f} and {:.0f} s; with".format(*sums) in said
    again = json.loads((ROOT / "results" / "lab" / "h200-start.json").read_text())["runs"]["again"]["set_up"]
    sums = [seconds * 350 / 349 + again for seconds in epochs]
    cached = f"with the {again:.1f} s of a set-up from torch's cache, below, {sums[0]:.0f} and {sums[1]:.0f}"
    assert f"{cached}. These are sums, not runs" in said


@pytest.mark.parametrize("title", ["CIFAR-10", "CIFAR-100"])
def test_350_epochs_take_as_long_as_the_readme_says(title: str, said: str):
    lines = _lines(f"paper/{title.lower().replace('-', '')}", "adam-plus")
    seconds, start, end = lines[-1]["seconds"], lines[0]["wall_seconds"], lines[-1]["wall_seconds"]
    _, told = said.split(f"{title}, Adam⁺, 350 epochs: ")
    told, _ = told.split(" - ", maxsplit=1)
    assert told.startswith(f"{seconds / 350:.3f} s of training an epoch ({seconds:.0f} s); by the clock")
    assert f"{end - start:.1f} s from the end of the first epoch to that of the last" in told
    whole = (end - start) * 350 / 349
    assert f"{whole:.0f} s of 350. With the start" in told
    assert f"it is {end:.1f} s, and the whole command took" in told


def test_the_readme_says_where_norms_flatten_whatever_the_windows(said: str, monkeypatch: pytest.MonkeyPatch):
    both = [_lines(f"paper/{name}", "adam-plus") for name in ("cifar10", "cifar100")]
    places = {}
    for part in (10, 20, 40, 80):
        monkeypatch.setattr(_growth, "PART", part)
        found = [_growth.growth(lines) for lines in both]
        places[part] = [one.knee for one in found if one is not None and one.flattens]
    assert places[20] == [60_214, 60_214]
    assert "growth falls most at iteration 60,214, epoch 154." in said
    for lines in both:
        norms = [lines[i]["norm_sum"] - lines[i - 1]["norm_sum"] for i in (149, 151)]  # of epochs 150 and 152
        assert norms[1] < norms[0] / 2
    assert "‖z‖ halves within the two epochs after the rate was divided by ten for the first time, 150 of 350" in said
    epochs = [place / 391 for pair in places.values() for place in pair]
    assert (len(epochs), f"at epochs {min(epochs):.0f} to {max(epochs):.0f}" in said) == (8, True)


def test_the_readme_has_the_numbers_of_wikitext2(said: str):
    folder = "paper-6-epochs/wikitext2"
    sgd = {rate: _lines(folder, "sgd", lr=rate)[-1] for rate in (20, 10, 5)}
    others = [name for name in NAMES if name not in ("adam-plus", "sgd")]
    text = {name: _last(folder, name)["test_perplexity"] for name in others} | {"sgd": sgd[20]["test_perplexity"]}
    plus = {rate: _lines(folder, "adam-plus", lr=rate) for rate in (20, 10, 5)}
    order = "SGD {sgd:.1f}, Adam {adam:.1f}, NIGT {nigt:.1f}, momentum SGD {msgd:.1f}, AdaGrad {adagrad:.1f}"
    at = {rate: lines[-1]["test_perplexity"] for rate, lines in plus.items()}
    assert f"Adam⁺ {at[10]:.1f}, {order.format(**text)}" in said
    assert f"gives {at[20]:.1f}, α = 5 gives {at[5]:.1f}" in said
    assert min(plus, key=lambda rate: plus[rate][-1]["validation_perplexity"]) == 10
    assert f"SGD at 10 gives {sgd[10]['test_perplexity']:.1f}, at 5 {sgd[5]['test_perplexity']:.1f}" in said
    assert min(sgd, key=lambda rate: sgd[rate]["validation_perplexity"]) == 20
    later = [line for lines in plus.values() for line in lines[1:]]
    assert {f"{line['norm']:.2f}" for line in later} == {"0.22", "0.23"}
    assert {rate: f"{lines[-1]['eta']:.0f}" for rate, lines in plus.items()} == {20: "38", 10: "19", 5: "9"}
    assert "38 with α = 20, and with α = 10 about that of SGD, η = 19 and 20" in said
    adam = [line["test_perplexity"] for line in _lines(folder, "adam")]
    ahead = [a < b["test_perplexity"] for a, b in zip(adam, plus[10], strict=True)]
    assert ahead == [True] * 5 + [False]  # "up to the fifth epoch"


def test_the_readme_has_the_numbers_of_40_epochs_of_wikitext2(said: str):
    plus, sgd = (_lines("paper/wikitext2", name) for name in ("adam-plus", "sgd"))
    assert (len(plus), len(sgd)) == (40, 40)
    one, other = plus[-1], sgd[-1]
    form = f"at a test perplexity of {one['test_perplexity']:.1f}, SGD at {other['test_perplexity']:.1f}"
    assert form in said
    form = f"(validation {one['validation_perplexity']:.1f} and {other['validation_perplexity']:.1f},"
    assert form in said
    train = one["train_perplexity"], other["train_perplexity"]
    assert f"Adam⁺ is {100 * (train[0] / train[1] - 1):.0f} % behind, {train[0]:.1f} and {train[1]:.1f}" in said
    wet = one["running_perplexity"], other["running_perplexity"]
    assert f"it is {100 * (wet[0] / wet[1] - 1):.1f} % behind, {wet[0]:.1f} and {wet[1]:.1f}, which the page" in said
    ahead = [a["train_perplexity"] < b["train_perplexity"] for a, b in zip(plus, sgd, strict=True)]
    assert ahead == [True] * 13 + [False] * 27  # "up to epoch 13"
    eta = {line["lr"]: line["eta"] for line in plus}  # at the last epoch of each rate
    assert "({:.1f}, {:.2f}, {:.2f}, {:.3f})".format(*(eta[10 / 4**i] for i in range(4))) in said


def test_40_epochs_of_wikitext2_take_as_long_as_the_readme_says(said: str):
    older, newer = _runs("paper/wikitext2", "adam-plus")
    start, end = newer[0]["wall_seconds"], newer[-1]["wall_seconds"]
    form = "WikiText-2, Adam⁺, 40 epochs: {:.1f} s an epoch by the clock, {:.1f} of them training"
    assert form.format((end - start) / 39, newer[-1]["seconds"] / 40) in said
    form = f"{end - start:.0f} s from the end of the first epoch to that of the last, {end:.1f} s with the start"
    assert form in said
    assert f"with SGD beside it from the sixth epoch on, took {older[-1]['wall_seconds']:.0f} s" in said


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
def test_350_epochs_repeat_their_bits_in_another_session(experiment: str, said: str):
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
    assert "accuracy at w differs by up to 0.23 points, and at ŵ, where nothing is drawn, by 0.02" in said


def test_the_readme_has_the_numbers_of_momentum_sgds_usual_recipe(said: str):
    stored = ROOT / "results" / "recipe"
    recipe = [100 * run[-1]["test_accuracy"] for run in _runs(stored, "msgd")]
    plus = [100 * _lines("tuned-quick/cifar10", "adam-plus", seed=seed)[-1]["test_accuracy"] for seed in (1, 2, 3)]
    mean = summarize(recipe)
    assert f"it has {mean.mean:.2f} ± {mean.error:.2f} %" in said
    ahead = [a - b for a, b in zip(plus, recipe, strict=True)]
    assert "ahead of it by {:.2f}, {:.2f} and {:.2f} points with the same seeds".format(*ahead) in said
    for spec in _final(stored, "msgd").values():
        assert (spec["task"], spec["epochs"]) == ("cifar10", 35)
        assert spec["settings"] == {"momentum": 0.9, "lr": 0.1, "weight_decay": 0.0005}


def test_the_readme_has_the_numbers_of_the_tuned_comparison_on_an4(said: str):
    names = ("adam", "msgd", "adam-plus")
    ends = {name: [run[-1]["test_loss"] for run in _runs("tuned/an4", name)] for name in names}
    assert [len(end) for end in ends.values()] == [3, 3, 3]
    means = [summarize(end) for end in ends.values()]
    ranked = [f"{mean.mean:.3f} ± {mean.error:.3f}" for mean in means]
    assert "Adam {}, momentum SGD {}, Adam⁺ {}.".format(*ranked) in said
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
    form = "chose α = {adam-plus[lr]} with β = {adam-plus[beta]}, the largest that was tried, {msgd[lr]} for momentum"
    assert form.format(**chosen) in said
    assert f"SGD and {chosen['adam']['lr']:f} for Adam." in said
    at = {name: [_validation(trial) for trial in found] for name, found in tried.items()}
    assert {name: len(losses) for name, losses in at.items()} == {"adam": 8, "msgd": 7, "adam-plus": 8}
    own, msgd, adam = at["adam-plus"], at["msgd"], at["adam"]
    form = f"Adam⁺ {own[0]:.2f}, {own[1]:.2f} (α = {second['lr']} with β = {second['beta']}), and six of {own[2]:.2f}"
    assert f"{form} or worse, one of which ended at {own[-1]:,.0f}" in said
    form = f"momentum SGD {msgd[0]:.2f}, {msgd[1]:.2f}, five of {msgd[2]:.2f} or worse, and one that diverged"
    assert f"{form}; Adam five below 2.6 and three of {adam[5]:.2f} or worse." in said
    assert adam[4] < 2.6
    assert f"On {_last('tuned/an4', 'adam-plus', seed=1)['step']} steps Adam⁺ is far behind" in said
    together = [run[-1]["seconds"] for run in _runs("paper/an4", "adam-plus")[1:] + _runs("paper/an4", "nigt")[1:]]
    assert (len(together), f"took {min(together):.0f} to {max(together):.0f} s each" in said) == (5, True)
    seconds = fmean(run[-1]["seconds"] for run in _runs("tuned/an4", "adam-plus"))
    assert f"{seconds:.1f} s of training a run" in said
    assert 12 < min(together) / seconds < max(together) / seconds < 14


def test_the_readme_has_the_numbers_of_the_start_and_of_cudnns_choices(said: str):
    runs = json.loads((ROOT / "results" / "lab" / "h200-start.json").read_text())["runs"]
    first, again, by_timing, mode_b = runs.values()
    assert f"set up in {first['set_up']:.1f} s, compiled for the first time, and in {again['set_up']:.1f} s" in said
    form = "{:.3f} and {:.3f} s of training an epoch, {:.3f} and {:.3f} with evaluation"
    both = (first["training"], again["training"], first["with_evaluation"], again["with_evaluation"])
    assert form.format(*both) in said
    for option, run in (("--by-timing", by_timing), ("TORCH_CUDNN_USE_HEURISTIC_MODE_B=1", mode_b)):
        assert option in run["command"]
        assert f"`{option}`: {run['training']:.3f} and {run['with_evaluation']:.3f} s" in said


def test_the_readme_has_the_numbers_of_the_tuned_comparison(said: str):
    plus, msgd = (
        [_lines("tuned-quick/cifar10", name, seed=seed) for seed in (1, 2, 3)] for name in ("adam-plus", "msgd")
    )
    ends = [[100 * run[-1]["test_accuracy"] for run in runs] for runs in (plus, msgd)]
    means = [summarize(end) for end in ends]
    form = "Adam⁺ {0.mean:.2f} ± {0.error:.2f} % test accuracy, momentum SGD {1.mean:.2f} ± {1.error:.2f} %"
    assert form.format(*means) in said
    assert "ahead by {:.2f}, {:.2f} and {:.2f} points".format(*(a - b for a, b in zip(*ends, strict=True))) in said
    mean = {name: [[fmean(run[i][name] for run in runs) for i in range(35)] for runs in (plus, msgd)] for name in SHOWN}
    ahead = {name: [a > b for a, b in zip(*curves, strict=True)] for name, curves in mean.items()}
    assert ahead["test_accuracy"] == [False] + [True] * 34
    assert ahead["running_accuracy"] == [False] * 24 + [True] * 11
    assert (
        f"after fifteen, {100 * mean['test_accuracy'][0][14]:.1f} and {100 * mean['test_accuracy'][1][14]:.1f} %"
        in said
    )
    at = [100 * fmean(run[14][f"test_accuracy{end}"] for run in plus) for end in ("", "_hat")]
    form = f"at epoch 15, Adam⁺ has {at[0]:.1f} % at w, {at[1]:.1f} % at ŵ, and momentum SGD"
    assert f"{form} {100 * mean['test_accuracy'][1][14]:.1f} %" in said
    chosen = [_settings("tuned-quick/cifar10", name)["settings"] for name in ("adam-plus", "msgd")]
    assert f"α = {chosen[0]['lr']} with decay {1e4 * chosen[0]['weight_decay']:.1f}·10⁻⁴" in said
    assert f"and {chosen[1]['lr']} with {1e4 * chosen[1]['weight_decay']:.1f}·10⁻⁴" in said


def test_the_readme_says_how_far_apart_two_points_end(said: str):
    most: dict[str, float] = {}
    for folder, name in itertools.product(("paper", "paper-quick", "tuned-quick"), ("adam-plus", "nigt")):
        for run in _runs(f"{folder}/cifar10", name) + _runs(f"{folder}/cifar100", name):
            apart = 100 * abs(run[-1]["test_accuracy"] - run[-1]["test_accuracy_hat"])
            most[name] = max(most.get(name, 0.0), apart)
    form = "Adam⁺'s w and ŵ are up to {adam-plus:.1f} points apart, NIGT's up to {nigt:.2f}."
    assert form.format(**most) in said


def test_the_readme_tells_of_the_older_run_on_cifar100(said: str):
    older, newer = _runs("paper/cifar100", "adam-plus")
    waits = [(run[-1]["wall_seconds"] - run[0]["wall_seconds"]) / 349 for run in (older, newer)]
    assert f"CIFAR-100's has {waits[1]:.3f} for 0.816 in a run of 40 epochs that is not kept" in said
    assert f"had {waits[0]:.3f}, {350 * waits[0]:.0f} s of 350" in said


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
