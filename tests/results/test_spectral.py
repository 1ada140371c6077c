"""results/spectral: its table has the numbers of the stored runs, computed here in another way."""

import json
import runpy
import statistics
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results" / "spectral" / "novels-small"
PAGE = (ROOT / "results" / "spectral" / "README.md").read_text()
LABELS = ("adamw", "muon", "lion", "scion", "spectral-plus", "adam-plus")
T = 4.3027  # Student's t of a 95 % interval with two degrees of freedom, from a printed table


@cache
def runs() -> list[dict[str, Any]]:
    """All stored runs: settings.json, with the lines of metrics and how the run ended."""
    found = []
    for path in sorted(FOLDER.glob("runs/*/*/*/settings.json")):
        lines = [json.loads(line) for line in path.with_name("metrics.jsonl").read_text().splitlines()]
        found.append(
            {**json.loads(path.read_text()), "lines": lines, "end": json.loads(path.with_name("end.json").read_text())}
        )
    return found


def chosen(label: str, phase: str) -> list[dict[str, Any]]:
    return [run for run in runs() if (run["spec"]["label"], run["spec"]["phase"]) == (label, phase)]


def losses(label: str) -> dict[int, float]:
    """Test loss after the last epoch, by seed."""
    return {run["spec"]["seed"]: run["lines"][-1]["test_loss"] for run in chosen(label, "final")}


def cells(label: str) -> list[str]:
    """The cells of a contender's line in the page's table."""
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {label} |") and "±" in line)
    return [cell.strip() for cell in line.strip("|").split("|")]


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


@pytest.mark.parametrize("label", LABELS)
def test_all_contenders_have_the_same_search_and_the_settings_of_their_best_trial(label: str):
    trials, final = chosen(label, "search"), chosen(label, "final")
    assert sorted(run["spec"]["trial"] for run in trials) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sorted(run["spec"]["seed"] for run in final) == [1, 2, 3]
    best = min(
        (run for run in trials if run["end"]["status"] == "finished"),
        key=lambda run: run["lines"][-1]["validation_loss"],
    )
    assert all(run["spec"]["settings"] == best["spec"]["settings"] for run in final)


def test_the_runs_have_one_certificate():
    certificates = {
        json.dumps([run[name] for name in ("versions", "hardware", "threads", "git", "parameters")]) for run in runs()
    }
    assert len(certificates) == 1
    run = runs()[0]
    assert not run["git"]["dirty"]
    assert run["git"]["commit"].startswith(PAGE.split("commit ")[1][:7])
    assert f"torch {run['versions']['torch']}" in PAGE
    assert f"Python {run['versions']['python']}" in PAGE
    assert run["hardware"] in PAGE
    assert f"{run['parameters']:,} parameters" in PAGE
    rows, length = run["task"]["rows"]["train"], 64
    assert f"{rows * length:,} bytes" in PAGE
    assert {one["lines"][-1]["step"] for one in runs() if one["end"]["status"] == "finished"} == {rows // 8} == {1200}


@pytest.mark.parametrize("label", LABELS)
def test_the_table_has_the_numbers_of_the_runs(label: str):
    own = losses(label)
    values = list(own.values())
    error = statistics.stdev(values) / 3**0.5
    name, result, n, *pairs, state, lost, settings = cells(label)
    assert (name, result, n) == (label, f"{sum(values) / 3:.3f} ± {error:.3f}", "3")
    for other, cell in zip(("spectral-plus", "scion"), pairs, strict=True):
        if other == label:
            assert not cell
            continue
        differences = [losses(other)[seed] - value for seed, value in own.items()]
        mean, reach = sum(differences) / 3, T * statistics.stdev(differences) / 3**0.5
        assert cell == f"{signed(mean)} [{signed(mean - reach)}, {signed(mean + reach)}]"
    (bytes_,) = {run["end"]["state_bytes"] / run["parameters"] for run in chosen(label, "final")}
    assert state == f"{bytes_:.2f}"
    ends = [run["end"]["status"] for phase in ("search", "final") for run in chosen(label, phase)]
    assert lost == f"{sum(end != 'finished' for end in ends)} of {len(ends)}"
    for setting, value in chosen(label, "final")[0]["spec"]["settings"].items():
        assert f"{setting} {value:g}" in settings


def test_the_table_is_in_the_order_of_its_results():
    order = sorted(LABELS, key=lambda label: statistics.fmean(losses(label).values()))
    places = [PAGE.index(f"| {label} | {cells(label)[1]} |") for label in order]
    assert places == sorted(places)


def test_the_script_prints_the_table(capsys: pytest.CaptureFixture[str]):
    script = runpy.run_path(str(ROOT / "benchmarks" / "paired_differences.py"))
    assert (
        script["table"](script["read"](FOLDER, "novels_small", "test_loss"), ("spectral-plus", "scion"), "test_loss")
        in PAGE
    )


def test_the_conclusion_and_the_order_of_each_seed_are_of_the_runs():
    own = losses("spectral-plus")
    for label, sign in {"adamw": -1, "lion": -1, "adam-plus": -1, "scion": -1, "muon": +1}.items():
        assert all(sign * (value - losses(label)[seed]) > 0 for seed, value in own.items()), label
    assert max(losses("muon").values()) < min(own.values())
    for label, words in {"adamw": "ends {} nats a byte below", "muon": "{} above Muon + AdamW"}.items():
        differences = [value - losses(label)[seed] for seed, value in own.items()]
        reach = T * statistics.stdev(differences) / 3**0.5
        assert words.format(f"{abs(sum(differences) / 3):.3f} ± {reach:.3f}") in PAGE
    assert "{:.3f}, {:.3f} and {:.3f}".format(*losses("lion").values()) in PAGE


def test_the_trials_with_and_without_look_ahead_differ_in_nothing_else():
    ahead, at_w = (
        sorted(chosen(label, "search"), key=lambda run: run["spec"]["trial"]) for label in ("spectral-plus", "scion")
    )
    lookaheads, differences = [], []
    for one, other in zip(ahead, at_w, strict=True):
        settings = dict(one["spec"]["settings"])
        lookaheads.append(settings.pop("lookahead"))
        assert {**settings, "lookahead": 0.0} == other["spec"]["settings"]
        differences.append(one["lines"][-1]["validation_loss"] - other["lines"][-1]["validation_loss"])
    assert sum(value < 0 for value in differences) == 7
    assert f"{min(lookaheads):.2f} and {max(lookaheads):.2f}" in PAGE
    assert f"by {-statistics.fmean(differences):.3f} on average over all eight" in PAGE


def test_one_chosen_setting_is_at_an_end_of_what_was_tried():
    ends = []
    for label in LABELS:
        trials = chosen(label, "search")
        for name, value in chosen(label, "final")[0]["spec"]["settings"].items():
            tried = {run["spec"]["settings"][name] for run in trials}
            if len(tried) > 1 and value in (min(tried), max(tried)):
                ends.append((label, name, value))
    assert ends == [("spectral-plus", "lookahead", 1.69)]


def test_the_times_are_those_of_the_runs():
    seconds = {label: statistics.median(run["end"]["seconds"] for run in chosen(label, "final")) for label in LABELS}
    sentence = (
        "Training took {:.0f} s with SpectralPlus, {:.0f} s with `scion`, {:.0f} s with Muon + AdamW and {:.0f} s"
    )
    assert sentence.format(*(seconds[label] for label in ("spectral-plus", "scion", "muon", "adamw"))) in PAGE
    minutes = sum(run["lines"][-1]["wall_seconds"] for run in runs()) / 60
    assert f"took {minutes:.0f} minutes" in PAGE


@pytest.mark.parametrize("label", ["scion", "spectral-plus"])
def test_trials_with_large_rates_are_far_behind(label: str):
    trials = {run["spec"]["settings"]["lr"]: run["lines"][-1]["validation_loss"] for run in chosen(label, "search")}
    behind = [loss - min(trials.values()) for lr, loss in trials.items() if lr > 0.04]
    assert len(behind) == 5
    assert min(behind) > 0.085
    assert max(behind) < 0.715


def test_the_guide_has_the_results_of_the_runs():
    guide = (ROOT / "docs" / "which.md").read_text()
    for label, name in {
        "muon": "Muon for matrices, AdamW for the rest",
        "spectral-plus": "SpectralPlus",
        "scion": "SpectralPlus, ℓ = 0 (the directions of Scion)",
        "adamw": "AdamW",
        "lion": "Lion",
        "adam-plus": "Adam⁺",
    }.items():
        result, state = cells(label)[1], cells(label)[-3]
        assert f"| {name} | {result} | {state} |" in guide.replace("**", "")
