"""Tests of `adamplus theory`: the commands from end to end, and the options that they refuse."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from adamplus.cli import app
from adamplus.lab.commands import theory as commands
from adamplus.lab.errors import InputError
from adamplus.lab.measured_theory._methods import METHODS
from adamplus.lab.measured_theory.measurement import in_processes, measure

RESULTS = Path(__file__).parents[3] / "results" / "theory"

CONSTANTS = ("--L", "1", "--L-H", "1", "--Delta", "1", "--sigma", "1")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["theory", *(str(a) for a in arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    environment = {"COLUMNS": "400", "TERM": "dumb"}
    result = CliRunner().invoke(app, ["theory", *(str(a) for a in arguments)], env=environment)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_table1_from_end_to_end(tmp_path: Path):
    options = ("--epsilon", "0.4,0.3,2", "--runs", 2, "--tuning-runs", 2, "--workers", 1, "--problem", "valley")
    printed = run("table1", *options, "--out", tmp_path / "made")
    found = json.loads((tmp_path / "made" / "table1.json").read_text())
    assert found["certificate"]["command"].startswith("adamplus theory table1 --problem valley --epsilon 0.4,0.3,2")
    assert {"hardware", "versions", "git", "started", "seconds", "processor_seconds"} <= set(found["certificate"])
    assert found["seeds"] == {"measured": 2, "tuning": 1}
    assert [row["method"] for row in found["rows"]] == list(METHODS)
    for row in found["rows"]:
        first = 54 if row["method"] == "sgd-ema" else 162  # the second stage adds up to 2 · 4 batches with 3 step sizes
        assert {first < point["candidates"] <= first + 24 for point in row["points"]} == {True}
        assert {tuple(point["results"]) for point in row["points"]} == {("last", "average", "random")}
    for name in ("table1.png", "table1.pdf", "table1.csv", "theory.html"):
        assert (tmp_path / "made" / name).stat().st_size > 1000
    assert not (tmp_path / "made" / ".table1-parts").exists()  # they are not needed once the tables are written
    assert (tmp_path / "made" / "table1.md").read_text().strip() in printed
    page = (tmp_path / "made" / "theory.html").read_text()
    assert "Nadam⁺" in page
    assert "slopes between neighbouring ε" in page
    assert "http://" not in page
    assert "https://" not in page


def test_rate_and_variance_share_a_page_that_show_reproduces(tmp_path: Path):
    run("rate", "--method", "sgd,nigt", "--epsilon", "0.4,0.3,2", "--runs", 4, "--workers", 1, "--out", tmp_path)
    run("variance", "--seeds", 2, "--epochs", 1, "--steps", 20, "--out", tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir() if path.suffix in (".md", ".csv", ".html")}
    assert {"rate.md", "rate.csv", "variance.md", "variance.csv", "theory.html"} == set(before)
    run("show", tmp_path)
    assert {name: (tmp_path / name).read_text() for name in before} == before
    assert "proved to be enough" in before["theory.html"]
    assert "How exact z is" in before["theory.html"]


def test_the_page_contains_no_markdown(tmp_path: Path):
    run("rate", "--method", "sgd", "--epsilon", "0.4,0.3,2", "--runs", 4, "--workers", 1, "--out", tmp_path)
    page = (tmp_path / "theory.html").read_text()
    assert "ε<sup>−3.5</sup>" in page
    assert "<code>adamplus theory rate --method sgd" in page
    assert "`" not in page.partition("<body>")[2]


def test_settings_prints_what_the_theorem_gives():
    printed = run("settings", "--theorem", 3, "--epsilon", 0.01, *CONSTANTS)
    assert "T, steps          5,893,887" in printed
    assert "m, other batches  202,009" in printed
    assert "VIOLATED" not in printed
    assert "VIOLATED: α ≤ 1/L: 2 ≤ 1" in run("settings", "--theorem", 3, "--epsilon", 0.01, *CONSTANTS, "--lr", 2)
    printed = run("settings", "--theorem", 1, "--T", 10_000, "--G", 2, *CONSTANTS, "--norm-sum", 100)
    assert "(1/T) Σ E‖∇F(w_t)‖² ≤ 0.5016" in printed  # 0.02 + 0.0016 + 0.18 + 0.3
    assert "--norm-sum" in run("settings", "--theorem", 1, "--T", 10_000, "--G", 2, *CONSTANTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("settings", "--theorem", "4"), "--theorem must be one of 1, 2, 3, fast, nigt, remark, lemma4, got 4"),
        (("settings", "--theorem", "3", "--L", "1"), "theorem 3 also needs --epsilon, --L-H, --Delta, --sigma"),
        (("settings", "--theorem", "2", "--T", "9", "--G", "1", *CONSTANTS), "theorem 2 does not use --G"),
        (("settings", "--theorem", "3", "--epsilon", "-1", *CONSTANTS), "epsilon must be finite and above 0"),
        (("rate", "--method", "sdg"), "unknown method 'sdg': did you mean sgd?"),
        (("rate", "--problem", "vally"), "unknown problem 'vally': did you mean valley?"),
        (("table1", "--epsilon", "0.1,0.2,3"), "must be the largest ε, the smallest and how many"),
        (("table1", "--epsilon", "0.1"), "--epsilon must be 3 numbers, separated by commas, got 0.1"),
        (("table1", "--epsilon", "0.2,-0.1,3"), "must be the largest ε, the smallest and how many"),
        (("table1", "--epsilon", "0.2,0.1,inf"), "how many (2 to 100)"),
        (("table1", "--epsilon", "0.9,0.1,2"), "two different ε, from 1e-06 to below 0.5, got"),
        (("rate", "--epsilon", "0.3,1e-300,2"), "two different ε, from 1e-06 to below 0.5, got"),
        (("settings", "--theorem", "3", "--epsilon", "1e-300", *CONSTANTS), "beyond the range of a float (float"),
        (("settings", "--theorem", "3", "--epsilon", "1e300", *CONSTANTS), "float (Numerical result out of range)"),
        (("settings", "--theorem", "nigt", "--T", "9", "--lr", "1e308", *CONSTANTS), "beyond the range of a float"),
        (("table1", "--runs", "1"), "--runs must be at least 2, got 1"),
        (("table1", "--runs", "0"), "--runs must be at least 2, got 0"),
        (("table1", "--tuning-runs", "1"), "--tuning-runs must be at least 2, got 1"),
        (("rate", "--max-steps", "0"), "--max-steps must be at least 1, got 0"),
        (("table1", "--variant-epsilons", "1"), "--variant-epsilons must be at least 2, got 1"),
        (("table1", "--problem", "valley-1000"), "unknown problem 'valley-1000': did you mean valley-100"),
        (("table1", "--workers", "0"), "--workers must be at least 1, got 0"),
        (("rate", "--method", "sgd,sgd"), "method 'sgd' is given twice"),
        (
            ("settings", "--theorem", "2", "--T", "9", *CONSTANTS, "--norm-sum", "1"),
            "--norm-sum must be at least 0 and needs --theorem 1 or remark, got 1.0 for 2",
        ),
        (("variance", "--seeds", "1"), "--seeds must be at least 2, got 1"),
        (("variance", "--epochs", "0"), "--epochs must be at least 1, got 0"),
        (("variance", "--steps", "9"), "--steps must be at least 10, got 9"),
        (("variance", "--beta", "0"), "--beta must be in (0, 1], got 0"),
        (("variance", "--lr", "1,-1"), "--lr must be two finite numbers above 0, got 1,-1"),
        (("variance", "--lr", "1"), "--lr must be 2 numbers"),
        (("show", "nowhere"), "has no reports of `adamplus theory`"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*arguments)
    assert not list(tmp_path.iterdir())  # nothing was started


@pytest.mark.parametrize("command", ["rate", "table1", "variance"])
def test_a_folder_that_cannot_be_written_to_is_refused_before_measuring(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it measures")

    monkeypatch.setattr("adamplus.lab.commands.theory.measure_rates", never)
    monkeypatch.setattr("adamplus.lab.commands.theory.measure_table1", never)
    monkeypatch.setattr("adamplus.lab.commands.theory.measure_variance", never)
    (tmp_path / "file").write_text("")
    assert "cannot be written to: Not a directory" in refused(command, "--out", tmp_path / "file" / "folder")
    assert "cannot be written to: File exists" in refused(command, "--out", tmp_path / "file")


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"kind": "../evil"}', '{"kind": "rate"}', '{"kind": "rate", "rows": 3}', "[" * 100_000]
)
def test_a_file_that_is_not_a_report_is_refused(content: str, tmp_path: Path):
    shutil.copy(RESULTS / "table1.json", tmp_path)
    (tmp_path / "rate.json").write_text(content)
    assert f"{tmp_path}/rate.json is not what `adamplus theory` wrote" in refused("show", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rate.json", "table1.json"]  # nothing was written


def test_training_that_diverges_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ways = Mock()
    monkeypatch.setattr("adamplus.lab.commands.theory.typer.echo", ways)
    message = refused("variance", "--lr", "1,1e30", "--seeds", 2, "--epochs", 1, "--steps", 10, "--out", tmp_path)
    assert "training on digits diverges with lr = 1e+30: pass a smaller --lr" in message
    assert ways.call_count == 1  # of two


def test_names_may_have_blanks_and_runs_that_end_too_early_are_not_reached(tmp_path: Path):
    options = ("--epsilon", "0.3,0.2,2", "--runs", 2, "--max-steps", 1, "--workers", 1, "--out", tmp_path)
    printed = run("rate", "--method", "sgd, nigt", *options)
    assert "double-well, nigt, ε = 0.2: not reached" in printed
    assert "nan" not in printed


def test_ctrl_c_ends_all_processes_silently(tmp_path: Path):
    command = [sys.executable, "-m", "adamplus.cli", "theory", "table1", "--method", "sgd-ema", "--out", str(tmp_path)]
    command += ["--epsilon", "0.4,0.004,7", "--problem", "double-well"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith("1/"), first
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all processes
        assert process.wait(20) == 130
        rest = process.stderr.read()
    assert "Error" not in rest
    assert "Traceback" not in rest


def test_a_killed_worker_process_is_reported(monkeypatch: pytest.MonkeyPatch):
    pool = Mock(side_effect=BrokenProcessPool("A process in the process pool was terminated abruptly"))
    monkeypatch.setattr(ProcessPoolExecutor, "submit", pool)
    with pytest.raises(InputError, match=r"worker process was killed.*: pass fewer --workers"):
        list(in_processes(measure, [Mock()], 2))


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(commands, "load_reports", Mock(side_effect=PermissionError(13, "denied", "rate.json")))
    result = CliRunner().invoke(app, ["theory", "show", str(tmp_path)])
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert "a file cannot be read or written" in result.output
    assert "Fix that, and give the same command again." in result.output  # it does not claim that results are kept


def test_a_closed_pipe_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As in `adamplus theory show DIR | head -1`."""
    monkeypatch.setattr(commands, "load_reports", Mock(side_effect=BrokenPipeError(32, "Broken pipe")))
    result = CliRunner().invoke(app, ["theory", "show", str(tmp_path)])
    assert (result.exit_code, result.output) == (1, "")
