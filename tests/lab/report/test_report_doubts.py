"""Reports of doubtful results: runs lost or missing, a coarse search, files with wrong content."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab.report.test_report import answer_of, csv_of, page_of, table_of
from lab.stores import add_comparison, add_run

from adamplus.lab._present.statistics import sensitivity
from adamplus.lab._store.files import write_json
from adamplus.lab._store.store import Run
from adamplus.lab.errors import InputError
from adamplus.lab.report import read, report
from adamplus.lab.report.rows import cells

GOOD_LR = 9
"""Index of the column."""


def good_lr_of(root: Path, label: str) -> str:
    return cells(table_of(root)[label])[GOOD_LR]


def add_trials(root: Path, label: str, trials: list[tuple[float, float]], status: str = "finished") -> None:
    for trial, (lr, value) in enumerate(trials):
        add_run(root, label, [value], phase="search", seed=0, trial=trial, lr=lr, status=status)


# Runs that were lost


@pytest.mark.parametrize("status", ["diverged", "failed"])
@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_contender_that_lost_runs_is_ahead_of_no_other(status: str, better: str, tmp_path: Path):
    about, sign = {"metric": "score", "better": better}, 1 if better == "higher" else -1
    for seed in (1, 2, 3):
        add_run(tmp_path, "sgd", [sign * (0.5 + 0.01 * seed)], seed=seed, about=about)
        if seed < 3:
            add_run(tmp_path, "adam", [sign * (0.9 + 0.001 * seed)], seed=seed, about=about)
    assert {label: row.rank for label, row in table_of(tmp_path).items()} == {"adam": (1, 1), "sgd": (2, 2)}
    add_run(tmp_path, "adam", [sign * 0.1], seed=3, status=status, about=about)
    assert {label: row.rank for label, row in table_of(tmp_path).items()} == {"adam": (1, 2), "sgd": (1, 2)}
    assert re.fullmatch(
        r"No clear leader: adam has the best mean, .*, of the runs that finished, but it lost other runs, which "
        rf"count as worse than any that finished\. 1 of 3 runs of adam {status}\.",
        answer_of(tmp_path),
    )
    assert "counts as worse than any that finished" in page_of(tmp_path)


def test_losses_of_both_kinds_are_named(tmp_path: Path):
    add_run(tmp_path, "sgd", [0.5])
    add_run(tmp_path, "adam", [0.1], seed=1, status="diverged")
    add_run(tmp_path, "adam", [0.1], seed=2, status="failed")
    assert answer_of(tmp_path).endswith("Every run of adam diverged or failed.")


# Metrics that are not finite


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_runs_without_a_finite_metric_count_as_finished(value: float, tmp_path: Path):
    for seed in (1, 2):
        add_run(tmp_path, "adam", [value], seed=seed)
    assert answer_of(tmp_path) == "No answer: 2 final runs finished, without a finite test accuracy."


def test_the_answer_names_contenders_without_a_finite_metric(tmp_path: Path):
    add_run(tmp_path, "adam", [0.5])
    add_run(tmp_path, "sgd", [math.nan])
    assert answer_of(tmp_path) == (
        "adam alone has a test accuracy of 0.5000 (n = 1). sgd finished without a finite test accuracy."
    )


# Runs that do not exist


def comparison_with_missing_runs(root: Path) -> None:
    """Two contenders with one trial and two seeds each; a trial and a final run of sgd are missing."""
    runs = [
        add_run(root, label, [0.5], seed=seed, phase="final" if seed else "search", lr=0.3)
        for seeds in ((0,), (1, 2))
        for label in ("adam", "sgd")
        for seed in seeds
    ]
    folders = [run.folder.relative_to(root).as_posix() for run in runs]
    add_comparison(root, ["adam", "sgd"], tune=1, seeds=[1, 2], runs=folders)
    for gone in (runs[1], runs[-1]):
        for path in gone.folder.iterdir():
            path.unlink()


def test_missing_runs_are_reported(tmp_path: Path):
    comparison_with_missing_runs(tmp_path)
    table = table_of(tmp_path)
    assert [cells(table[label])[4] for label in ("adam", "sgd")] == ["–", "1 not begun"]
    assert "Of the 6 runs of this comparison, 2 have not begun" in page_of(tmp_path)
    assert page_of(tmp_path).count("<td>not begun</td>") == 2
    report(tmp_path)
    assert [line["not_begun"] for line in csv_of(tmp_path)] == ["0", "1"]


def test_a_run_that_failed_before_it_began_counts_as_failed(tmp_path: Path):
    comparison_with_missing_runs(tmp_path)
    folder = tmp_path / json.loads((tmp_path / "comparison.json").read_text())["runs"][-1]
    Run(folder).finish({"status": "failed", "reason": "no <data>"})
    assert cells(table_of(tmp_path)["sgd"])[4] == "1 failed"
    text = page_of(tmp_path)
    assert "1 has not begun and 1 failed before it began" in text
    assert "failed before it began: no &lt;data&gt;" in text


def test_missing_runs_of_unknown_contenders_are_counted(tmp_path: Path):
    run = add_run(tmp_path, "adam", [0.5])
    folder = run.folder.relative_to(tmp_path).as_posix()
    add_comparison(tmp_path, ["adam"], runs=[folder, "runs/digits/adam/final-seed9-0"])
    assert cells(table_of(tmp_path)["adam"])[4] == "–"
    assert "Of the 2 runs of this comparison, 1 has not begun" in page_of(tmp_path)


def test_a_number_of_trials_that_no_memory_holds_is_read(tmp_path: Path):
    run = add_run(tmp_path, "adam", [0.5])
    folder = run.folder.relative_to(tmp_path).as_posix()
    search = {"adam": {"lr": "log-uniform, 0.0002 to 0.06"}}
    add_comparison(tmp_path, ["adam"], tune=10**12, search=search, runs=[folder, "runs/digits/adam/final-seed9-0"])
    assert "1 has not begun" in page_of(tmp_path)


# The search


def test_without_a_search_the_page_explains_that_settings_are_middles_of_ranges(tmp_path: Path):
    add_run(tmp_path, "adam", [0.5])
    ranges = {"adam": {"lr": "log-uniform, 0.0002 to 0.06"}}
    add_comparison(tmp_path, ["adam"], tune=0, search={}, ranges=ranges)
    text = page_of(tmp_path)
    assert "was the middle (the geometric mean) of its declared range" in text
    assert "<b>adam</b>: lr log-uniform, 0.0002 to 0.06" in text
    add_comparison(tmp_path, ["adam"], tune=0, search={}, ranges={"adam": {}})
    assert "None: all settings were given or the optimizer’s defaults." in page_of(tmp_path)
    add_comparison(tmp_path, ["adam"], tune=0, search={})  # as in files of earlier versions, without ranges
    assert "was the middle (the geometric mean) of its declared range" in page_of(tmp_path)


def test_a_best_setting_at_the_edge_of_the_trials_is_reported(tmp_path: Path):
    add_trials(tmp_path, "adam", [(0.01, 0.5), (0.1, 0.89), (1.0, 0.9)])
    add_run(tmp_path, "adam", [0.9], lr=1.0)
    add_comparison(tmp_path, ["adam"], edge={"digits": {"adam": ["lr"]}})
    assert good_lr_of(tmp_path, "adam") == "×10 of ×1,000, at the edge"
    assert "adam: lr=1 is best and at the edge of what was tried" in page_of(tmp_path)


@pytest.mark.parametrize(("status", "value"), [("diverged", 0.5), ("failed", 0.5), ("finished", math.nan)])
def test_a_search_in_which_no_trial_finished_is_reported(status: str, value: float, tmp_path: Path):
    add_trials(tmp_path, "adam", [(0.01, value), (0.1, value)], status)
    assert good_lr_of(tmp_path, "adam") == "–"  # the search may not have ended
    add_run(tmp_path, "adam", [0.9])
    add_comparison(tmp_path, ["adam"])
    assert good_lr_of(tmp_path, "adam") == "no trial finished"
    assert "adam: no trial finished, so its final runs have the middle of the declared range." in page_of(tmp_path)


def test_a_good_range_narrower_than_the_spacing_of_trials_is_only_bounded(tmp_path: Path):
    add_trials(tmp_path, "adam", [(0.02, 0.1), (0.2, 0.9), (2.0, 0.1)])
    add_comparison(tmp_path, ["adam"])
    assert good_lr_of(tmp_path, "adam") == "< ×10 of ×1,000"  # 1000^(1/3)
    report(tmp_path)
    assert float(csv_of(tmp_path)[0]["lr_trial_spacing"]) == pytest.approx(10.0)
    assert "a narrower range cannot be resolved" in page_of(tmp_path)


def test_without_a_declared_range_the_outermost_trials_are_its_ends(tmp_path: Path):
    found = sensitivity([(0.1, 0.1), (1.0, 0.9), (10.0, 0.1)], higher=True)
    assert found is not None
    assert (found.searched, found.spacing) == pytest.approx((100.0, 10.0))
    add_trials(tmp_path, "adam", [(0.1, 0.5)])
    assert good_lr_of(tmp_path, "adam") == "–"


# Files with wrong content


def change(file: str, *keys: str, to: Any) -> Callable[[Path], None]:
    """A function that puts a value into one of a run's files."""

    def do(folder: Path) -> None:
        content = json.loads((folder / file).read_text())
        inner = content
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to
        write_json(folder / file, content)

    return do


def first_epoch(**values: Any) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        first, *rest = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        lines = [{**first, **values, "checksum": None}, *rest]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    return do


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (first_epoch(test_loss="abc"), "metrics.jsonl, epoch 1: test_loss is 'abc', but must be a number"),
        (first_epoch(test_accuracy=[1]), "epoch 1: test_accuracy is [1]"),
        (first_epoch(seconds="1"), "epoch 1: seconds is '1'"),
        (first_epoch(validation_accuracy=10**400), "epoch 1: validation_accuracy is 1000"),
        (first_epoch(train_loss=10**400), "but must be below 1e300"),
        (change("settings.json", "spec", "epochs", to="2"), "metrics.jsonl has 2 epochs of 2"),
        (change("settings.json", "spec", "settings", to=None), "settings.json: settings is None"),
        (change("settings.json", "spec", "label", to=["a"]), "settings.json: label is ['a'], but must be a name"),
        (change("settings.json", "spec", "seed", to="1"), "settings.json: seed is '1'"),
        (change("settings.json", "spec", "phase", to=["final"]), "settings.json: phase is ['final']"),
        (change("settings.json", "parameters", to="many"), "settings.json: parameters is 'many'"),
        (change("settings.json", "versions", to=[1]), "settings.json: versions is [1]"),
        (change("settings.json", "git", to="main"), "settings.json: git is 'main'"),
        (change("settings.json", "task", to=[1]), "settings.json does not describe the run"),
        (change("settings.json", "task", "metric", to=3), "settings.json does not describe the run"),
        (change("settings.json", "task", "rows", to=[1]), "settings.json: rows is [1]"),
        (change("settings.json", "task", "target", to="0.5"), "settings.json: target is '0.5'"),
        (change("end.json", "steps_per_second", to="fast"), "end.json: steps_per_second is 'fast'"),
        (change("end.json", "seconds", to="x"), "end.json: seconds is 'x', but must be a number"),
        (change("end.json", "state_bytes", to={}), "end.json: state_bytes is {}"),
    ],
)
def test_a_run_whose_files_have_wrong_types_cannot_be_read(
    damage: Callable[[Path], None], message: str, tmp_path: Path
):
    add_run(tmp_path, "adam", [0.4, 0.5], seed=1)
    damage(add_run(tmp_path, "adam", [0.4, 0.5], seed=2).folder)
    (reason,) = read(tmp_path).unreadable.values()
    assert message in reason
    assert "1 run folder could not be read" in page_of(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tasks", None),
        ("tasks", [1]),
        ("labels", None),
        ("chosen", None),
        ("chosen", {"digits": {"adam": 3}}),
        ("search", [1]),
        ("ranges", {"adam": 3}),
        ("runs", None),
        ("seeds", ["a", 1]),
        ("tune", "4"),
        ("edge", {"digits": {"adam": "lr"}}),
        ("wall_seconds", "long"),
    ],
)
def test_a_comparison_file_with_wrong_types_is_refused(key: str, value: Any, tmp_path: Path):
    add_run(tmp_path, "adam", [0.5])
    add_comparison(tmp_path, ["adam"])
    change("comparison.json", key, to=value)(tmp_path)
    with pytest.raises(InputError, match=rf"comparison.json: {key} is .*, but must be .*: remove it"):
        report(tmp_path)


@pytest.mark.parametrize("declared", ["log-uniform, a to b", "1e to 2", "0 to 1", 3, None])
def test_a_range_that_cannot_be_parsed_is_ignored(declared: Any, tmp_path: Path):
    add_trials(tmp_path, "adam", [(0.1, 0.1), (1.0, 0.9), (10.0, 0.1)])
    add_comparison(tmp_path, ["adam"], search={"adam": {"lr": declared}})
    assert good_lr_of(tmp_path, "adam") == "< ×10 of ×100"
