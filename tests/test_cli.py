"""The command line: what commands write and print, and their errors for bad input."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from torch import nn
from typer.testing import CliRunner

import adamplus
from adamplus.cli import app
from adamplus.lab._present import ProgressLines
from adamplus.lab.bench import measure, shapes
from adamplus.lab.bench import run as commands
from adamplus.lab.bench.contenders import CONTENDERS, by_optimizer
from adamplus.lab.bench.table import COLUMNS
from adamplus.lab.optimizers import registry

pytestmark = pytest.mark.usefixtures("_frozen_again")


@pytest.fixture(autouse=True)
def _small_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(measure.COPIED, "cpu", 1 << 20)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small model with a hidden matrix, whose step takes almost no time."""

    def model() -> nn.Module:
        with torch.device("meta"):
            return nn.Sequential(nn.Linear(16, 8), nn.LayerNorm(16), nn.Linear(8, 4, bias=False))

    monkeypatch.setitem(shapes.MODELS, "tiny", model)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "400", "TERM": "dumb"})
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.usefixtures("tiny")
def test_bench_step_measures_every_optimizer_and_writes_every_column(tmp_path: Path):
    file = tmp_path / "step.json"
    printed = run("bench", "step", "--model", "tiny", "--device", "cpu", "--rounds", 3, "--json", file)
    report: dict[str, Any] = json.loads(file.read_text())
    assert report["certificate"]["command"] == (
        "adamplus bench step --model tiny --dtype float32 --device cpu --rounds 3"  # and no path of the file
    )
    assert {"hardware", "date", "python", "torch", "adamplus", "threads"} <= set(report["certificate"])
    assert report["copy_gb_per_s"] > 0
    (model,) = report["models"]
    assert (model["model"], model["tensors"], model["parameters"]) == ("tiny", 5, 200)
    # 28 bytes a parameter at the speed of the copy
    assert model["floor_ms"] == pytest.approx(1e3 * 28 * 200 / (report["copy_gb_per_s"] * 1e9))
    rows = {row["optimizer"]: row for row in model["rows"]}
    quick = {contender.label for contender in CONTENDERS.values() if not contender.heavy}
    assert set(rows) | set(model["absent"]) == quick
    for name, row in rows.items():
        assert row["eager_quartiles_ms"][0] <= row["eager_ms"] <= row["eager_quartiles_ms"][1]
        assert row["over_floor"] == pytest.approx(row["eager_ms"] / model["floor_ms"])
        assert row["eager_over_adam"] == pytest.approx(row["eager_ms"] / rows["Adam fused"]["eager_ms"])
        assert (row["captured_ms"], row["captured_over_adam"]) == (None, None)
        assert row["not_captured"]
        assert name in printed
    assert rows["momentum SGD fused"]["moved_bytes"] == 20 * 200
    assert rows["SpectralPlus, signs"]["moved_bytes"] == 20 * 200
    assert rows["Muon + AdamW fused"]["gb_per_s"] is None
    for column in COLUMNS:
        assert all(word in printed for word in column.replace(",", "").split()), column


@pytest.mark.usefixtures("tiny")
def test_bench_step_takes_16_bit_parameters_and_a_choice_of_optimizers(tmp_path: Path):
    file = tmp_path / "step.json"
    chosen = ("--optimizer", "adam-plus-foreach", "--optimizer", "msgd-foreach", "--dtype", "bfloat16")
    printed = run("bench", "step", "--model", "tiny", "--rounds", 3, "--device", "cpu", *chosen, "--json", file)
    rows = json.loads(file.read_text())["models"][0]["rows"]
    assert [row["optimizer"] for row in rows] == ["Adam⁺ foreach", "momentum SGD foreach"]
    assert [row["moved_bytes"] for row in rows] == [20 * 200, 10 * 200]  # z is float32, SGD's buffer is not
    assert [row["eager_over_adam"] for row in rows] == [None, None]
    assert "AdamW" not in printed


@pytest.mark.usefixtures("tiny")
def test_bench_step_measures_spectral_steps_on_a_cpu_if_they_are_named(tmp_path: Path):
    file = tmp_path / "step.json"
    chosen = [word for key in ("spectral-plus", "spectral-plus-kept") for word in ("--optimizer", key)]
    run("bench", "step", "--model", "tiny", "--rounds", 3, "--device", "cpu", *chosen, "--json", file)
    (model,) = json.loads(file.read_text())["models"]
    assert [row["optimizer"] for row in model["rows"]] == ["SpectralPlus", "SpectralPlus, D kept"]
    assert [row["moved_bytes"] for row in model["rows"]] == [None, None]  # matrix products limit these steps
    one, kept = (row["state_bytes"] for row in model["rows"])
    assert kept - one == 2 * 8 * 16


@pytest.mark.usefixtures("tiny")
def test_bench_show_prints_the_same_table_from_the_file(tmp_path: Path):
    file = tmp_path / "step.json"
    chosen = ("--optimizer", "adam-plus-foreach", "--optimizer", "adam-fused", "--optimizer", "schedule-free-adamw")
    printed = run("bench", "step", "--model", "tiny", "--rounds", 3, "--device", "cpu", *chosen, "--json", file)
    assert run("bench", "show", file).strip() == printed.strip()
    assert run("bench", "show", file, "--markdown").startswith("| model | optimizer |")


def test_bench_scale_draws_and_writes(tmp_path: Path):
    png, numbers, svg = tmp_path / "scale.png", tmp_path / "scale.json", tmp_path / "again.svg"
    few = ("--max-parameters", 1_000_000, "--max-tensors", 30, "--rounds", 3, "--device", "cpu")
    printed = run("bench", "scale", *few, "--figure", png, "--json", numbers)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert str(png) in printed.replace("\n", "")
    models = json.loads(numbers.read_text())["models"]
    assert [(m["model"], m["tensors"]) for m in models[1:]] == [("equal tensors", 10), ("equal tensors", 30)]
    assert models[0]["parameters"] == pytest.approx(1e6, rel=0.05)
    assert [row["optimizer"] for row in models[0]["rows"]] == ["Adam⁺ foreach", "Adam fused", "momentum SGD fused"]
    run("bench", "show", numbers, "--figure", svg)
    assert "<svg" in svg.read_text()


@pytest.mark.usefixtures("tiny")
def test_errors_for_bad_input_say_what_to_do(tmp_path: Path):
    step = ("bench", "step", "--device", "cpu")
    assert "unknown model 'alexnet': choose from resnet18, many-small" in refused(*step, "--model", "alexnet")
    assert "unknown optimizer 'adamplus': choose from adam-plus-fused" in refused(*step, "--optimizer", "adamplus")
    assert "unknown dtype 'float8': choose from float32, bfloat16" in refused(
        *step, "--model", "tiny", "--dtype", "float8"
    )
    assert "--rounds must be at least 3, got 1" in refused(*step, "--model", "tiny", "--rounds", 1)
    assert "create it first" in refused(*step, "--model", "tiny", "--json", tmp_path / "nowhere" / "step.json")
    assert "--device must be cpu, cuda, or cuda:1 and so on, got" in refused("bench", "step", "--device", "abacus")
    assert "--device must be cpu, cuda, or cuda:1 and so on, got" in refused("bench", "step", "--device", "meta")
    assert "--max-parameters must be at least 1,000,000" in refused("bench", "scale", "--max-parameters", 10)
    assert ".png, .svg, .pdf" in refused("bench", "scale", "--figure", tmp_path / "scale.doc")
    nonsense = tmp_path / "nonsense.json"
    for content in ('{"kind": "step"}', "[" * 100_000):
        nonsense.write_text(content)
        assert "is no report of `adamplus bench`" in refused("bench", "show", nonsense)


@pytest.mark.usefixtures("tiny")
def test_a_bench_that_is_stopped_keeps_the_lists_that_were_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compare = commands.compare

    def stopped_at_the_second(name: str, *rest: Any) -> Any:
        if name == "many-small":
            raise KeyboardInterrupt
        return compare(name, *rest)

    monkeypatch.setattr(commands, "compare", stopped_at_the_second)
    file = tmp_path / "step.json"
    chosen = ("--model", "tiny", "--model", "many-small", "--optimizer", "adam-fused", "--rounds", "3")
    assert CliRunner().invoke(app, ["bench", "step", "--device", "cpu", *chosen, "--json", str(file)]).exit_code != 0
    assert [model["model"] for model in json.loads(file.read_text())["models"]] == ["tiny"]


@pytest.mark.usefixtures("tiny")
def test_a_step_report_has_no_figure(tmp_path: Path):
    file = tmp_path / "step.json"
    chosen = ("--model", "tiny", "--optimizer", "adam-fused", "--rounds", 3, "--device", "cpu")
    run("bench", "step", *chosen, "--json", file)
    assert "only reports of `bench scale` have a figure, and this one is of `bench step`" in refused(
        "bench", "show", file, "--figure", tmp_path / "step.png"
    )


def commands_of(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A command and all below it, with their names."""
    yield name, group
    for key, command in getattr(group, "commands", {}).items():
        yield from commands_of(command, f"{name} {key}")


def test_the_version_is_printed():
    found = run("--version").split()
    assert found[:4] == ["adamplus", f"{adamplus.__version__},", "torch", f"{torch.__version__},"]


def test_examples_of_the_help_are_commands_with_known_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("step.json").touch()  # which one of them reads
    root: Any = typer.main.get_command(app)
    examples = 0
    for name, command in commands_of(root, "adamplus"):
        for line in (command.epilog or "").split("\n"):
            if line.startswith("  "):
                program, *words = shlex.split(line)
                assert program == "adamplus", name
                found = root
                while hasattr(found, "commands"):
                    found = found.commands[words.pop(0)]
                found.make_context("adamplus", words)  # raises for an unknown option
                examples += 1
        assert command.help, name
    assert examples >= 15


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (["compare"], ["digits", "wikitext2-gpt", *registry.CONTENDERS]),
        (["bench", "step"], ["resnet18", "gpt-1.3b", "adam-plus-foreach", "schedule-free-adamw"]),
        (["reproduce"], ["cifar10", "growth", "--toy"]),
        (["data", "download"], ["cifar10", "wikitext2"]),
        (["theory", "table1"], ["storm", "double-well"]),
    ],
)
def test_the_help_has_the_names_that_a_command_takes(command: list[str], names: list[str]):
    text = "".join(run(*command, "--help").translate(str.maketrans("│", " ")).split())
    assert all(name in text for name in names)


def test_bench_calls_optimizers_as_comparisons_do():
    ways = by_optimizer()
    assert set(ways) <= set(registry.CONTENDERS)
    assert ways["adam-plus"] == ["adam-plus-fused", "adam-plus-foreach", "adam-plus-plain"]
    assert sorted(key for keys in ways.values() for key in keys) == sorted(CONTENDERS)


@pytest.mark.usefixtures("tiny")
def test_bench_takes_the_name_of_an_optimizer_for_all_its_ways(tmp_path: Path):
    file = tmp_path / "step.json"
    few = ("--model", "tiny", "--rounds", 3, "--device", "cpu", "--json", file)
    run("bench", "step", *few, "--optimizer", "msgd", "--optimizer", "muon")
    (model,) = json.loads(file.read_text())["models"]
    assert [row["optimizer"] for row in model["rows"]] == [
        "momentum SGD fused",
        "momentum SGD foreach",
        "Muon + AdamW fused",
    ]


@pytest.mark.usefixtures("tiny")
def test_without_a_terminal_bench_prints_lines_of_progress_on_standard_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ProgressLines, "EVERY", 0.0)
    few = ["bench", "step", "--model", "tiny", "--optimizer", "adam-fused", "--rounds", "3", "--device", "cpu"]
    result = CliRunner().invoke(app, few)
    assert re.search(r"tiny: 100 % measured, after \d", result.stderr)
    assert "measured, after" not in result.stdout


@pytest.mark.parametrize("missing", ["typer", "rich", "matplotlib"])
def test_without_the_lab_the_error_says_what_to_install(missing: str):
    code = f"import sys; sys.modules[{missing!r}] = None; import adamplus.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install -e '.[lab]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_the_characters_shows_question_marks():
    report = Path(__file__).parent.parent / "results" / "step" / "h200.json"
    for arguments in (["--help"], ["bench", "show", str(report)]):
        command = [sys.executable, "-m", "adamplus.cli", *arguments]
        done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True)
        assert b"Adam?" in done.stdout
