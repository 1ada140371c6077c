"""Comparisons: trials, choices and final runs; reuse of stored runs; errors, kills and full disks."""

import errno
import io
import math
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from small_comparison import here, numbers, record, write_task
from typer.testing import CliRunner

from adamplus.cli import app
from adamplus.lab._compare import comparison, progress
from adamplus.lab._compare import search as _search
from adamplus.lab._compare.options import split_list
from adamplus.lab._compare.plan import plan
from adamplus.lab._compare.progress import Watch
from adamplus.lab._compare.request import Request
from adamplus.lab._store import provenance
from adamplus.lab._store.files import write_json
from adamplus.lab._store.spec import Spec
from adamplus.lab._store.store import CHECKPOINT, END, METRICS, SETTINGS, Run, Store
from adamplus.lab.engines import EndedRun, attempt, local
from adamplus.lab.errors import InputError
from adamplus.lab.optimizers import CONTENDERS, LogUniform
from adamplus.lab.report import write as report_files


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use no processes and make no page: other tests cover both."""
    monkeypatch.setattr(local, "start", here)
    monkeypatch.setattr(comparison, "show", lambda root, console, alone: None)


@pytest.fixture
def task(tmp_path: Path) -> str:
    return write_task(tmp_path / "plane.py")


def compare(*arguments: Any, **options: Any) -> comparison.Outcome:
    """A comparison that tunes nothing, unless it is requested."""
    return comparison.compare(*arguments, **{"tune": 0, **options})


def output(*arguments: object, status: int) -> str:
    """The output of the command, on one line; it tunes nothing, unless that is requested."""
    words = [str(a) for a in arguments]
    words += [] if "--tune" in words else ["--tune", "0"]
    result = CliRunner().invoke(app, ["compare", *words], env={"COLUMNS": "400", "TERM": "dumb"})
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


def runs(root: Path) -> list[Spec]:
    return [Spec.from_json(run.settings()["spec"]) for run in Store(root).runs()]


def test_all_contenders_have_the_same_trials_and_seeds_and_final_runs_use_the_best_trial(tmp_path: Path, task: str):
    outcome = compare([task], ["adam-plus", "sgd"], seeds=2, tune=3, out=tmp_path / "runs")
    assert (outcome.trained, outcome.kept, outcome.failures) == (10, 0, {})
    found = runs(tmp_path / "runs")
    for label in ("adam-plus", "sgd"):
        trials = [spec for spec in found if (spec.label, spec.phase) == (label, "search")]
        finals = [spec for spec in found if (spec.label, spec.phase) == (label, "final")]
        assert sorted(spec.trial for spec in trials) == [1, 2, 3]
        assert {spec.seed for spec in trials} == {0}  # which no final run has
        assert sorted(spec.seed for spec in finals) == [1, 2]
        losses = {Store(tmp_path / "runs").run(s).metrics()[-1]["validation_loss"]: s.settings["lr"] for s in trials}
        assert {spec.settings["lr"] for spec in finals} == {losses[min(losses)]}
        assert outcome.chosen[task][label] == finals[0].settings
    text = record(tmp_path / "runs")
    assert text["chosen"] == outcome.chosen
    assert (text["tasks"], text["labels"], text["seeds"]) == ([task], ["adam-plus", "sgd"], [1, 2])
    assert text["search"]["sgd"] == {"lr": str(CONTENDERS["sgd"].search["lr"])}
    assert text["command"].startswith(f"adamplus compare {task} --optimizers adam-plus,sgd --seeds 2 --tune 3")
    assert sorted(text["runs"]) == sorted(numbers(tmp_path / "runs"))
    assert text["wall_seconds"] > 0


PASSING = '''"""A weight on its way from 0 to 1: validation wants 0.4, test 1."""

import torch
from torch import nn

from adamplus.lab.tasks import Task


class Passing(Task):
    epochs = 4
    batch = 16

    def data(self):
        x = torch.ones(64, 1)
        return {"train": (x, x), "validation": (x, 0.4 * x), "test": (x, x)}

    def model(self):
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        return model

    def loss(self, outputs, y):
        return nn.functional.mse_loss(outputs, y) / 16
'''


def test_settings_are_chosen_by_validation_data_after_the_last_epoch(tmp_path: Path):
    task = tmp_path / "passing.py"
    task.write_text(PASSING)
    compare([str(task)], ["sgd"], seeds=1, tune=8, out=tmp_path / "runs")
    found = runs(tmp_path / "runs")
    lines = {s.settings["lr"]: Store(tmp_path / "runs").run(s).metrics() for s in found if s.phase == "search"}
    best = {
        (split, epoch): min(lines, key=lambda lr: lines[lr][epoch][f"{split}_loss"])
        for split in ("validation", "test")
        for epoch in (0, -1)
    }
    chosen = best.pop(("validation", -1))
    assert chosen not in best.values()  # or this would show nothing
    assert {spec.settings["lr"] for spec in found if spec.phase == "final"} == {chosen}


def test_options_of_a_request_reach_the_runs_and_the_rerun_command(task: str):
    request = Request([task], ["sgd"], seeds=1, tune=2, epochs=3, search="grid", first_batch=48, probe=True)
    made = plan(replace(request, device="cpu", out=Path("out")))
    (contender,) = made.contenders
    specs = [*made.trials(task, contender), *made.finals(task, contender, _search.Choice({"lr": 0.1}, [], 2))]
    assert len(specs) == 3
    assert {(spec.first_batch, spec.probe, spec.epochs, spec.precision) for spec in specs} == {(48, True, 3, "float32")}
    end = "--epochs 3 --search grid --device cpu --precision float32 --first-batch 48 --out out --probe"
    assert made.request.command() == f"adamplus compare {task} --optimizers sgd --seeds 1 --tune 2 {end}"
    there = plan(replace(request, engine="ray", device="cuda", tune=0)).request
    assert (there.device, there.precision) == ("cuda:0", "bfloat16")


def test_stored_runs_are_reused(tmp_path: Path, task: str):
    compare([task], ["sgd"], seeds=2, tune=2, out=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json*")}
    again = compare([task], ["sgd"], seeds=3, tune=2, out=tmp_path)
    assert (again.trained, again.kept) == (1, 4)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_an_edited_task_is_another_task(tmp_path: Path, task: str):
    compare([task], ["sgd"], seeds=1, out=tmp_path)
    Path(task).write_text(Path(task).read_text() + "# the same\n")
    assert compare([task], ["sgd"], seeds=1, out=tmp_path).trained == 0
    Path(task).write_text(Path(task).read_text() + "ANOTHER = True\n")
    assert compare([task], ["sgd"], seeds=1, out=tmp_path).trained == 1


def test_fixed_settings_are_not_searched_and_untuned_ones_are_the_middle_of_their_range(tmp_path: Path, task: str):
    fixed, rates = "adam:lr=0.3;betas=(0.5, 0.9)", CONTENDERS["adam"].search["lr"]
    outcome = compare([task], [fixed, "adam"], seeds=1, tune=2, out=tmp_path / "tuned")
    assert outcome.trained == 1 + 2 + 1
    assert outcome.chosen[task][fixed] == {"lr": 0.3, "betas": (0.5, 0.9)}
    assert record(tmp_path / "tuned")["search"] == {fixed: {}, "adam": {"lr": str(rates)}}
    outcome = compare([task], ["adam"], seeds=1, out=tmp_path / "untuned")
    assert record(tmp_path / "untuned")["search"] == {}
    assert record(tmp_path / "untuned")["ranges"] == {"adam": {"lr": str(rates)}}
    assert outcome.chosen[task]["adam"]["lr"] == pytest.approx(math.sqrt(rates.low * rates.high), rel=5e-3)  # 3 digits


def test_ranges_of_the_command_line_are_searched(tmp_path: Path, task: str):
    text = "adamw:lr=0.01..1;weight_decay=0.1..0.3;eps=1e-6"
    outcome = compare([task], [text, "adamw"], seeds=1, tune=3, out=tmp_path)
    (trials,) = [[s.settings for s in runs(tmp_path) if (s.label, s.phase) == ("adamw:eps=1e-6", "search")]]
    assert len(trials) == 3
    assert all(set(settings) == {"lr", "weight_decay", "eps"} for settings in trials)
    decays = sorted(settings["weight_decay"] for settings in trials)
    assert 0.1 <= decays[0] <= 0.145 <= decays[1] <= 0.209 <= decays[2] <= 0.3  # one in each third of the range
    assert all(0.01 <= settings["lr"] <= 1 and settings["eps"] == 1e-6 for settings in trials)
    assert outcome.chosen[task]["adamw:eps=1e-6"] in trials
    written = record(tmp_path)
    assert written["labels"] == ["adamw:eps=1e-6", "adamw"]
    assert written["search"]["adamw:eps=1e-6"] == {
        "lr": "log-uniform, 0.01 to 1",
        "weight_decay": "log-uniform, 0.1 to 0.3",
    }
    assert written["search"]["adamw"].keys() == {"lr"}
    assert shlex.split(written["command"])[4] == f"{text},adamw"  # the command that repeats it has the ranges


def test_the_documented_search_of_several_settings_can_be_planned(task: str):
    page = (Path(__file__).parents[3] / "docs" / "lab.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    (adamplus compare novels-gpt (?:.*\\\n)*.*)$", page, flags=re.MULTILINE)
    *_, optimizers = shlex.split(re.sub(r"\\\n *", "", command))
    planned = plan(Request([task], split_list(optimizers), seeds=3, tune=12, device="cpu"))
    assert {each.label: set(each.ranges) for each in planned.contenders} == {
        "adamw": {"lr", "weight_decay"},
        "muon": {"lr", "weight_decay"},
        "lion": {"lr", "weight_decay"},
        "scion": {"lr", "weight_decay", "beta"},
        "spectral-plus": {"lr", "weight_decay", "beta", "lookahead"},
    }


def test_one_optimizer_with_two_ranges_of_a_setting_is_refused(task: str):
    with pytest.raises(InputError, match=r"adamw:lr=1..2 is given twice, also as adamw"):
        plan(Request([task], ["adamw", "adamw:lr=1..2"], device="cpu"))


RANGES = {"lr": LogUniform(0.01, 10.0), "beta": LogUniform(0.1, 1.0)}


@pytest.mark.parametrize("kind", ["random", "grid"])
def test_trials_are_repeatable_and_cover_each_range_evenly(kind: Any):
    tried = _search.trials(RANGES, 6, kind, "digest")
    assert tried == _search.trials(RANGES, 6, kind, "digest")
    for key, values in RANGES.items():
        edges = [values.at(i / 6) for i in range(7)]
        inside = sorted(trial[key] for trial in tried)
        assert all(low <= value <= high for low, value, high in zip(edges, inside, edges[1:], strict=False))
    if kind == "grid":
        assert [trial["lr"] for trial in tried] == [RANGES["lr"].at((i + 0.5) / 6) for i in range(6)]
    else:
        assert tried != _search.trials(RANGES, 6, kind, "another")


@pytest.mark.parametrize("kind", ["random", "grid"])
@pytest.mark.parametrize("task", ["digits", "pydoc", "tones"])
def test_trials_of_a_single_setting_are_an_even_grid_at_the_same_fractions_for_all(task: str, kind: Any):
    fractions = []
    for name in ("adam-plus", "adam", "sgd"):
        values = CONTENDERS[name].search["lr"]
        tried = [trial["lr"] for trial in _search.trials({"lr": values}, 5, kind, task)]
        gaps = [high / low for low, high in pairwise(tried)]
        assert gaps == pytest.approx([(values.high / values.low) ** (1 / 5)] * 4, rel=0.01)  # three digits
        fractions.append([math.log(lr / values.low) / math.log(values.high / values.low) for lr in tried])
    assert all(each == pytest.approx(fractions[0], abs=1e-3) for each in fractions)
    assert (fractions[0] == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9], abs=1e-3)) == (kind == "grid")


def test_trials_do_not_depend_on_the_spelling_of_a_path_the_optimizer_or_a_comment(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    fractions = []
    for spelling in (task, "plane.py", "./plane.py"):
        Path(task).write_text(Path(task).read_text() + "# edited\n")
        planned = plan(Request([spelling], ["sgd", "adam", "adam:eps=1e-6"], tune=4, device="cpu"))
        for contender in planned.contenders:
            lr, rates = contender.ranges["lr"], [spec.settings["lr"] for spec in planned.trials(spelling, contender)]
            fractions.append([math.log(rate / lr.low) / math.log(lr.high / lr.low) for rate in rates])
    assert all(each == pytest.approx(fractions[0], abs=1e-3) for each in fractions)  # rates are of three digits


def test_trials_without_a_result_lose_and_the_edge_is_noted():
    lr = {"lr": RANGES["lr"]}
    tried = [{"lr": 1.0}, {"lr": 2.0}, {"lr": 3.0}, {"lr": 4.0}]
    assert _search.choose(tried, [0.5, 0.3, 0.3, None], lr, "lower").settings == {"lr": 2.0}
    assert _search.choose(tried, [0.5, 0.3, float("nan"), None], lr, "higher") == _search.Choice({"lr": 1.0}, ["lr"], 2)
    assert _search.choose(tried, [None, 0.9, None, None], lr, "lower").edge == []
    assert _search.choose(tried[:2], [0.3, 0.5], lr, "lower").edge == []  # of two, each is at an end
    assert _search.choose(tried[:3], [0.3, 0.5, 0.6], lr, "lower").edge == ["lr"]
    assert _search.choose(tried, [None] * 4, lr, "lower") == _search.Choice(_search.middle(lr), [], 0)


def test_a_best_trial_at_the_edge_of_the_range_is_reported(tmp_path: Path, task: str):
    # a rate of Adam's that suits a plane in sixteen steps is far above those that suit networks
    text = output(task, "--optimizers", "adam", "--seeds", 1, "--tune", 3, "--out", tmp_path, status=0)
    assert "is best, at the edge of the values tried" in text
    assert record(tmp_path)["edge"] == {task: {"adam": ["lr"]}}


def test_a_diverged_run_is_a_result_and_is_reused(tmp_path: Path, task: str):
    options = (task, "--optimizers", "sgd:lr=1e30,sgd:lr=0.1", "--seeds", 1, "--out", tmp_path)
    assert "diverged: " in output(*options, status=0)
    assert "Final runs: 0 to train, 2 reused" in output(*options, status=0)


def test_a_task_that_raises_does_not_stop_the_others(tmp_path: Path, task: str):
    hook = 'if epoch == 2 and not Path(__file__ + ".mended").exists(): raise RuntimeError("the sky\\n fell")'
    broken = write_task(tmp_path / "broken.py", hook)
    options = (broken, task, "--optimizers", "sgd,adam", "--seeds", 1, "--out", tmp_path / "runs")
    text = output(*options, status=1)
    assert f"{broken} · sgd · seed 1: RuntimeError: the sky fell" in text
    assert f"{broken} · adam · seed 1: RuntimeError: the sky fell" in text
    ends = {spec.task: (Store(tmp_path / "runs").run(spec).end() or {})["status"] for spec in runs(tmp_path / "runs")}
    assert ends == {broken: "failed", task: "finished"}
    Path(broken + ".mended").touch()
    assert "Final runs: 2 to train, 2 reused" in output(*options, status=0)
    assert len(numbers(tmp_path / "runs")) == 4


def test_a_missing_file_of_a_task_fails_the_run_and_is_not_reported_as_a_full_disk(tmp_path: Path, task: str):
    lost = write_task(tmp_path / "lost.py", "open('no/such/file')")
    options = (lost, task, "--optimizers", "sgd", "--seeds", 1, "--out", tmp_path / "runs")
    assert "no/such/file" in output(*options, status=1)
    assert "Final runs: 1 to train, 1 reused" in output(*options, status=1)


def test_a_task_that_raises_before_its_first_epoch_has_failed_too(tmp_path: Path, task: str):
    early = Path(write_task(tmp_path / "early.py"))
    second = "if Path(__file__ + '.called').exists(): raise ValueError('no model')"
    body = f"{second}\n        Path(__file__ + '.called').touch(); return nn.Linear(4, 1)"
    early.write_text(early.read_text().replace("return nn.Linear(4, 1)", body))
    options = (early, task, "--optimizers", "sgd", "--seeds", 1, "--out", tmp_path / "runs")
    assert f"{early} · sgd · seed 1: ValueError: no model" in output(*options, status=1)
    Path(f"{early}.called").unlink()
    assert "Final runs: 1 to train, 1 reused" in output(*options, status=1)


def test_a_failed_run_continues_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hook = """Path(__file__ + ".epochs").open("a").write(f"{epoch} ")
        if epoch == 2 and not Path(__file__ + ".mended").exists(): raise RuntimeError("the sky fell")"""
    broken = write_task(tmp_path / "broken.py", hook)
    options = (broken, "--optimizers", "adam-plus", "--seeds", 1)
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "train", partial(attempt.train, checkpoint_every=0.0))
        output(*options, "--out", tmp_path / "runs", status=1)
        (run,) = Store(tmp_path / "runs").runs()
        assert (run.checkpoint() or {})["epoch"] == 2
        Path(broken + ".mended").touch()
        output(*options, "--out", tmp_path / "runs", status=0)
    assert Path(broken + ".epochs").read_text() == "0 1 2 2 3 "
    assert run.checkpoint() is None
    output(*options, "--out", tmp_path / "undisturbed", status=0)
    assert numbers(tmp_path / "runs") == numbers(tmp_path / "undisturbed")


def test_a_run_that_fails_before_it_begins_is_recorded_and_others_go_on(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
):
    changed, train = write_task(tmp_path / "changed.py"), attempt.train

    def refused(spec: Spec, run: Run) -> None:
        if spec.task == changed:
            raise InputError("changed.py has changed since the comparison began")
        train(spec, run)

    options = (changed, task, "--optimizers", "sgd", "--seeds", 1, "--out", tmp_path / "runs")
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "train", refused)
        assert f"{changed} · sgd · seed 1: changed.py has changed since" in output(*options, status=1)
    ends = {spec.task: Store(tmp_path / "runs").run(spec).end() or {} for spec in runs(tmp_path / "runs")}
    assert ends[task]["status"] == "finished"
    assert (ends[changed]["status"], ends[changed]["reason"][:22]) == ("failed", "changed.py has changed")
    assert "Final runs: 1 to train, 1 reused" in output(*options, status=0)
    assert all("versions" in run.settings() for run in Store(tmp_path / "runs").runs())


def test_a_task_that_calls_exit_is_reported_as_failed(tmp_path: Path, task: str):
    exits = write_task(tmp_path / "exits.py", "raise SystemExit(3)")
    text = output(exits, task, "--optimizers", "sgd", "--seeds", 1, "--out", tmp_path / "runs", status=1)
    assert f"{exits} · sgd · seed 1: the task called sys.exit(3)" in text
    assert "[2/2]" in text


def test_files_beside_the_store_do_not_concern_it(tmp_path: Path):
    (tmp_path / "runs").mkdir()
    for name, inside in (("runs/x", True), ("runs-data/x", False), ("runs/../data/x", False)):
        error = FileNotFoundError(errno.ENOENT, "none", str(tmp_path / name))
        assert attempt.concerns_store(error, tmp_path / "runs") is inside


def test_reused_runs_of_other_versions_are_reported_once(tmp_path: Path, task: str):
    options = (task, "--optimizers", "sgd", "--seeds", 2, "--tune", 2, "--out", tmp_path)
    assert "Kept" not in output(*options, status=0)
    assert "Kept" not in output(*options, status=0)
    assert record(tmp_path)["kept_of"] == []
    for run in Store(tmp_path).runs():
        settings = run.settings()
        settings["versions"]["torch"] = "1.0"
        write_json(run.folder / SETTINGS, settings)
    text = output(*options, status=0)
    assert text.count("Reused") == 1
    assert (
        f"Reused 2 runs made with torch 1.0; this is torch {torch.__version__}: remove them, or pass another --out"
        in text
    )
    (other,) = record(tmp_path)["kept_of"]
    assert (other["runs"], other["torch"]) == (4, "1.0")


def test_reused_runs_of_another_commit_are_reported(tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch):
    output(task, "--optimizers", "sgd", "--seeds", 1, "--out", tmp_path, status=0)
    (run,) = Store(tmp_path).runs()
    write_json(run.folder / SETTINGS, run.settings() | {"git": {"commit": "a" * 40, "dirty": True}})
    monkeypatch.setattr(provenance, "git_state", lambda: {"commit": "b" * 40, "dirty": False})
    text = output(task, "--optimizers", "sgd", "--seeds", 1, "--out", tmp_path, status=0)
    assert "Reused 1 run made with commit aaaaaaa with changes; this is commit bbbbbbb: remove" in text


def test_the_time_of_a_stopped_attempt_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hook = """__import__("time").sleep(0.05)
        if now.optimizer == "adam" and not Path(__file__ + ".mended").exists(): raise KeyboardInterrupt"""
    task = write_task(tmp_path / "slow.py", hook)
    options = (task, "--optimizers", "sgd,adam", "--seeds", 1, "--out", tmp_path / "runs")
    output(*options, status=130)
    first = record(tmp_path / "runs")["wall_seconds"]
    assert first >= 0.2  # four epochs
    Path(task + ".mended").touch()
    output(*options, status=0)
    both = record(tmp_path / "runs")["wall_seconds"]
    assert both >= first + 0.2
    output(task, "--optimizers", "sgd", "--seeds", 1, "--out", tmp_path / "runs", status=0)
    assert record(tmp_path / "runs")["wall_seconds"] < both  # another command, whose run was there


def test_a_full_disk_is_reported_and_nothing_is_lost(tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch):
    options = (task, "--optimizers", "sgd,adam-plus", "--seeds", 2, "--tune", 2)
    output(*options, "--out", tmp_path / "undisturbed", status=0)
    left, append = iter(range(10)), Run.append

    def full(run: Run, line: dict[str, Any]) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(run, line)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "append", full)
        text = output(*options, "--out", tmp_path / "runs", status=1)
        assert "the disk is full" in text
        assert "give the same command again" in text
    assert "Search: 2 to train, 2 reused" in output(*options, "--out", tmp_path / "runs", status=0)
    assert numbers(tmp_path / "runs") == numbers(tmp_path / "undisturbed")


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A disk of 128 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_mounted_disk_that_is_full_loses_nothing(tmp_path: Path, task: str, small_disk: Path):
    options = (task, "--optimizers", "sgd,adam-plus,adam", "--seeds", 6)
    output(*options, "--out", tmp_path / "undisturbed", status=0)
    assert "the disk is full" in output(*options, "--out", small_disk / "runs", status=1)
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    output(*options, "--out", small_disk / "runs", status=0)
    assert numbers(small_disk / "runs") == numbers(tmp_path / "undisturbed")


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path, task: str):
    (tmp_path / "file").touch()
    assert "cannot be written to" in output(task, "--out", tmp_path / "file", status=2)


def test_two_comparisons_cannot_write_to_one_folder(tmp_path: Path, task: str):
    with Store(tmp_path).lock():
        text = output(task, "--out", tmp_path, status=2)
    assert f"another comparison is writing to {tmp_path} (process {os.getpid()})" in text
    output(task, "--optimizers", "sgd", "--out", tmp_path, status=0)


def test_names_of_tasks_never_lead_out_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "inside" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "inside" / "deep")
    write_task(tmp_path / "inside" / "<img src=x>.py")
    write_task(tmp_path / "inside" / "...py")
    names = ["../<img src=x>.py", "../...py", "../../inside/deep/../<img src=x>.py"]
    with pytest.raises(InputError, match="given twice"):
        compare(names, ["sgd"], seeds=1)
    before = set(tmp_path.rglob("*"))
    compare(names[:2], ["sgd:lr=0.1"], seeds=1)
    out = tmp_path / "inside" / "deep" / "runs"
    new = set(tmp_path.rglob("*")) - before
    assert all(path.is_relative_to(out) or "__pycache__" in path.parts for path in new)
    assert {spec.task for spec in runs(out)} == set(names[:2])
    assert {run.folder.parent.parent.name for run in Store(out).runs()} == {"img-src-x", "unnamed"}


DAMAGE: dict[str, Callable[[Run], object]] = {
    "settings.json cut off": lambda run: os.truncate(run.folder / SETTINGS, 100),
    "settings.json of another run": lambda run: (run.folder / SETTINGS).write_text('{"spec": {"task": "x"}}'),
    "settings.json gone": lambda run: (run.folder / SETTINGS).unlink(),
    "garbage in metrics.jsonl": lambda run: (run.folder / METRICS).write_bytes(b"\x00\xff\n{}\n"),
    "epochs missing": lambda run: (run.folder / METRICS).write_text(""),
    "end.json is a list": lambda run: (run.folder / END).write_text("[]"),
    "half a checkpoint": lambda run: (
        (run.folder / END).unlink() or (run.folder / CHECKPOINT).write_bytes(b"PK\x03\x04")
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_corrupt_run_is_named_set_aside_and_done_again(tmp_path: Path, task: str, damage: str):
    options = (task, "--optimizers", "sgd,adam-plus", "--seeds", 2, "--out", tmp_path)
    output(*options, status=0)
    undisturbed = numbers(tmp_path)
    name = sorted(undisturbed)[1]
    DAMAGE[damage](Run(tmp_path / name))
    text = output(*options, status=0)
    assert (
        f"{name} is damaged: moved to aside/{name.removeprefix('runs/').replace('/', '-')}.1, to be trained again"
        in text
    )
    assert "Final runs: 1 to train, 3 reused" in text
    assert numbers(tmp_path) == undisturbed
    assert len(list((tmp_path / "aside").iterdir())) == 1


def test_a_run_killed_before_it_wrote_its_settings_is_trained_anew(tmp_path: Path, task: str):
    compare([task], ["sgd"], seeds=1, out=tmp_path)
    (run,) = Store(tmp_path).runs()
    for path in run.folder.iterdir():
        path.unlink()
    (run.folder / (SETTINGS + ".new")).write_text("{")
    assert compare([task], ["sgd"], seeds=1, out=tmp_path).trained == 1
    assert not (tmp_path / "aside").exists()


def test_ctrl_c_prints_the_command_that_continues(tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch):
    options = (task, "--optimizers", "sgd", "--seeds", 3, "--out", tmp_path)
    done = Watch.done

    def stopped_after_the_second(watch: Watch, ended: EndedRun) -> None:
        done(watch, ended)
        if len(watch.ended) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Watch, "done", stopped_after_the_second)
        text = output(*options, status=130)
    assert re.search(
        rf"the same command continues from here: \S*adamplus compare {re.escape(task)} --optimizers sgd", text
    )
    assert "Final runs: 1 to train, 2 reused" in output(*options, status=0)


def test_by_default_settings_are_searched_with_five_trials_each(tmp_path: Path, task: str):
    assert comparison.compare([task], ["sgd", "adam:lr=0.1"], seeds=1, out=tmp_path).trained == 5 + 2


def test_a_comparison_that_tunes_nothing_says_so_before_its_runs(tmp_path: Path, task: str):
    options = ("--optimizers", "sgd,msgd,adam:lr=0.1", "--seeds", 1, "--out", tmp_path)
    warning = "Nothing is tuned (--tune 0): sgd and msgd have the middle of the declared range"
    assert warning in output(task, *options, status=0)
    assert warning.partition(":")[0] not in output(task, *options, "--tune", 1, status=0)
    options = ("--optimizers", "adam:lr=0.1", "--seeds", 1, "--out", tmp_path)
    assert warning.partition(":")[0] not in output(task, *options, status=0)  # its settings are given


def test_ctrl_c_names_the_training_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    task = write_task(tmp_path / "slow.py", "if epoch == 2: raise KeyboardInterrupt")
    options = (task, "--optimizers", "sgd:lr=0.1", "--seeds", 2)
    text = output(*options, "--out", tmp_path / "runs", status=130)
    lost = r"Stopped. Training that is lost: \d\.\d s of slow · sgd:lr=0.1 · seed 1, which has no checkpoint yet. "
    assert re.search(lost + "Everything else is stored: the same command continues from here: ", text)
    monkeypatch.setattr(attempt, "train", partial(attempt.train, checkpoint_every=0.0))
    text = output(*options, "--out", tmp_path / "saved", status=130)
    assert re.search(r"lost: \d\.\d s of slow · sgd:lr=0.1 · seed 1, since its checkpoint. Everything else", text)


def test_without_a_terminal_a_line_appears_at_least_every_minute(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.1)
    store, text = Store(tmp_path), io.StringIO()
    specs = [Spec(task, "", "sgd", "", "sgd", {"lr": 0.1}, seed=seed, epochs=4) for seed in (1, 2, 3)]
    with Watch(Console(file=text, width=400), store, "Final runs", specs, {task: "loss"}) as watch:
        store.run(specs[0]).begin({"spec": specs[0].to_json()})
        watch.done(EndedRun(specs[0], failure="no data"))
        store.run(specs[1]).begin({"spec": specs[1].to_json()})
        store.run(specs[1]).append({"epoch": 1, "seconds": 8.0, "test_loss": 0.5})
        deadline = time.monotonic() + 20
        while "after" not in text.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
    line = text.getvalue().splitlines()[1]
    assert re.fullmatch(r"\[1/3\] after \d+\.\d s, about \d+\.\d s left; plane · sgd · seed 2 \(epoch 1 of 4\)", line)
    printed = text.getvalue()
    time.sleep(0.3)
    assert text.getvalue() == printed  # nothing more once the runs are over


def test_what_to_run_next_runs_as_printed(tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(comparison, "show", report_files.show)
    monkeypatch.setattr(report_files, "_write_all", lambda root, *_: root / "report.html")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    arguments = ["compare", task, "--optimizers", "sgd", "--seeds", "1", "--tune", "0", "--out", "my runs"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "400"})
    printed = [line.strip() for line in result.output.splitlines() if " compare " in line and "--seeds" in line]
    assert len(printed) == 2
    for line, trained in zip(printed, ("Search: 5 to train", "Final runs: 9 to train, 1 reused"), strict=True):
        program, *words = shlex.split(line)
        assert Path(program) == Path(sys.executable).parent / "adamplus"  # which a shell does not find
        assert trained in CliRunner().invoke(app, words).output


REFUSED = {
    "unknown task 'digit': did you mean digits?": ("digit",),
    "the name of a file must end in .py": ("path/to/task",),
    "there is no such file": ("nowhere.py",),
    "unknown optimizer 'adamplus': did you mean adam-plus": ("TASK", "--optimizers", "adamplus"),
    "adam has no setting 'learning_rate'": ("TASK", "--optimizers", "adam:learning_rate=1"),
    "got 'lr' in 'adam:lr'": ("TASK", "--optimizers", "adam:lr"),
    "lr must be a number, True, False or None, got lr=fast in 'adam:lr=fast'": ("TASK", "--optimizers", "adam:lr=fast"),
    "the optimizer rejects 'adam:lr=-1': Invalid learning rate: -1": ("TASK", "--optimizers", "adam:lr=-1"),
    "the optimizer sgd is given twice": ("TASK", "--optimizers", "sgd,adam,sgd"),
    "the optimizer sgd:lr=.1 is given twice, also as sgd:lr=0.1": ("TASK", "--optimizers", "sgd:lr=0.1,sgd:lr=.1"),
    "is given twice": ("TASK", "TASK"),
    "no optimizers to compare": ("TASK", "--optimizers", ","),
    "--seeds must be at least 1, got 0": ("TASK", "--seeds", "0"),
    "a comparison can have 100,000 runs at most, got 6,000,000,000,000": ("TASK", "--seeds", "1000000000000"),
    "at most, got 6,000,000,000,018 (tasks × optimizers × (--seeds 3 + --tune": ("TASK", "--tune", "1000000000000"),
    "--tune must be at least 0, got -1": ("TASK", "--tune", "-1"),
    "--epochs must be at least 1, got 0": ("TASK", "--epochs", "0"),
    "--workers must be at least 1, got 0": ("TASK", "--workers", "0"),
    "Invalid value for '--seeds'": ("TASK", "--seeds", "many"),
    "unknown engine 'cloud': choose from local, ray": ("TASK", "--engine", "cloud"),
    "--engine torchrun needs several processes that torchrun started": ("TASK", "--engine", "torchrun"),
    "unknown search 'gird': did you mean grid?": ("TASK", "--search", "gird"),
    "unknown precision 'float16': did you mean": ("TASK", "--precision", "float16"),
    "--device must be cpu, cuda, or cuda:1": ("TASK", "--device", "abacus"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_reported_before_any_run(tmp_path: Path, task: str, message: str):
    arguments = [task if word == "TASK" else word for word in REFUSED[message]]
    text = output(*arguments, "--out", tmp_path / "runs", status=2)
    assert message in text
    assert "Traceback" not in text
    assert not (tmp_path / "runs").exists()


def test_an_optimizer_that_is_not_installed_is_reported_before_any_run(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "schedulefree", None)
    text = output(task, "--optimizers", "sgd,schedule-free-sgd", "--out", tmp_path / "runs", status=2)
    assert "schedule-free-sgd cannot be used: schedulefree is not installed: pip install schedulefree" in text


def test_if_ray_is_missing_the_error_says_how_to_install_it(tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "adamplus.lab.engines.ray", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install -e '.[ray]'" in output(task, "--engine", "ray", "--out", tmp_path, status=2)


def test_lists_are_cut_at_commas_outside_parentheses():
    assert split_list("sgd, adam:betas=(0.9,0.99);lr=0.1,nigt,") == ["sgd", "adam:betas=(0.9,0.99);lr=0.1", "nigt"]


def test_a_comparison_ends_with_a_page_that_can_be_made_again(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(comparison, "show", report_files.show)
    out = tmp_path / "runs"
    text = output(task, "--optimizers", "adam-plus,sgd", "--seeds", 2, "--tune", 3, "--out", out, status=0)
    assert "rank optimizer test loss n" in text
    assert f"Report: {out / 'report.html'}" in text
    files = ("report.html", "table.csv", "table.md")
    written = {name: (out / name).read_bytes() for name in files}
    for name in files:
        (out / name).unlink()
    result = CliRunner().invoke(app, ["report", str(out)])
    assert result.exit_code == 0, result.output
    assert written["table.csv"] == (out / "table.csv").read_bytes()
    assert (out / "report.html").exists()


def test_a_full_disk_while_the_report_is_written_is_an_error(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
):
    def full(root: Path, console: Console) -> Path:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise InputError("the report cannot be written") from error

    monkeypatch.setattr(comparison, "show", report_files.show)
    monkeypatch.setattr(report_files, "print_report", full)
    assert "the disk is full" in output(task, "--optimizers", "sgd", "--seeds", 1, "--out", tmp_path, status=1)


def test_a_terminal_shows_every_run_in_progress(tmp_path: Path, task: str):
    store, text = Store(tmp_path), io.StringIO()
    console = Console(file=text, force_terminal=True, width=120, height=20, color_system=None)
    specs = [
        Spec(task, "", "sgd", "", "[bold]sgd", {"lr": 0.1}, seed=seed, epochs=4, phase="final") for seed in (1, 2, 3, 4)
    ]
    watch = Watch(console, store, "Final runs", specs, {task: "loss"})
    for spec, epochs in zip(specs, (2, 0), strict=False):
        store.run(spec).begin({"spec": spec.to_json()})
        for epoch in range(1, epochs + 1):
            store.run(spec).append({"epoch": epoch, "seconds": 8.0 * epoch, "test_loss": 0.5, "validation_loss": 0.25})
    store.run(specs[3]).begin({"spec": specs[3].to_json()})  # of a task that holds nothing out
    store.run(specs[3]).append({"epoch": 1, "seconds": 8.0, "test_loss": 0.5})
    with watch:
        pass
    shown = text.getvalue()
    assert "[bold]sgd" in shown  # and is no markup
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "plane [bold]sgd seed 1 2/4 loss 0.25 16 s" in lines
    assert "plane [bold]sgd seed 2 –/4" in lines
    assert "seed 3" not in shown  # no worker has it yet
    assert "plane [bold]sgd seed 4 1/4 test loss 0.5 24 s" in lines
    assert "0/4 runs" in shown


UNUSABLE = ["[" * 100_000, '{"epoch": 1}', '{"epoch": 1, "seconds": "x", "test_loss": [1]}', "no JSON", "[1]"]


@pytest.mark.parametrize("line", UNUSABLE)
def test_a_broken_metrics_file_does_not_end_the_display(tmp_path: Path, task: str, line: str):
    store, text = Store(tmp_path), io.StringIO()
    console = Console(file=text, force_terminal=True, width=120, height=20, color_system=None)
    spec = Spec(task, "", "sgd", "", "sgd", {"lr": 0.1}, seed=1, epochs=1)
    watch = Watch(console, store, "Final runs", [spec], {task: "loss"})
    run = store.run(spec)
    run.begin({"spec": spec.to_json()})
    (run.folder / METRICS).write_text(line + "\n")
    with watch:
        watch.live.refresh()
        run.finish({"status": "finished"})
        watch.done(EndedRun(spec))
    shown = " ".join(text.getvalue().split())
    assert "Traceback" not in shown
    assert "1/1 runs" in shown
    assert ("sgd · seed 1 · damaged: metrics.jsonl cannot be read" in shown) == ("epoch" not in line)


@pytest.mark.parametrize("phase", ["search", "final"])
def test_a_run_whose_files_are_damaged_once_it_has_ended_is_no_result(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch, phase: str
):
    train, options = attempt.train, (task, "--optimizers", "sgd", "--seeds", 1, "--tune", 2, "--out", tmp_path / "runs")

    def rots(spec: Spec, run: Run) -> None:
        train(spec, run)
        if spec.phase == phase and spec.trial < 2:
            path = run.folder / METRICS
            path.write_bytes(path.read_bytes().replace(b"_loss", b"_lose", 1))

    with monkeypatch.context() as patch:
        patch.setattr(attempt, "train", rots)
        text = output(*options, status=1)
    name = "trial 1" if phase == "search" else "seed 1"
    assert f"sgd · {name}: its files are damaged: metrics.jsonl cannot be read: it has changed since it was wr" in text
    assert "is damaged: moved to aside/" in output(*options, status=0)
    output(*options[:-1], tmp_path / "undisturbed", status=0)
    kept = numbers(tmp_path / "runs")
    assert numbers(tmp_path / "undisturbed") == {name: kept[name] for name in record(tmp_path / "runs")["runs"]}


def test_deeply_nested_json_in_the_record_of_a_comparison_is_replaced(tmp_path: Path, task: str):
    (tmp_path / "comparison.json").write_text("[" * 100_000)
    compare([task], ["sgd"], seeds=1, out=tmp_path)
    assert record(tmp_path)["tasks"] == [task]


def test_numbers_do_not_depend_on_the_random_state_of_the_caller(tmp_path: Path, task: str):
    torch.manual_seed(1)
    compare([task], ["adam-plus"], seeds=1, out=tmp_path / "one")
    torch.rand(7)
    compare([task], ["adam-plus"], seeds=1, out=tmp_path / "two")
    assert numbers(tmp_path / "one") == numbers(tmp_path / "two")
