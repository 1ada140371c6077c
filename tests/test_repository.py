"""Files around the package: the Makefile, the workflows of CI, constraints and .gitignore fit each other."""

import importlib.metadata
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from adamplus.cli import app

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))


def git(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)


def default_outputs(command: Any, name: str = "adamplus") -> Iterator[tuple[str, Path]]:
    """Options of all commands whose default is a path."""
    for option in command.params:
        if isinstance(option.default, Path):
            yield name, option.default
    for key, inner in getattr(command, "commands", {}).items():
        yield from default_outputs(inner, f"{name} {key}")


@pytest.mark.skipif(git("rev-parse").returncode != 0, reason="this is no git repository")
def test_git_ignores_what_commands_write_by_default():
    outputs = {*default_outputs(typer.main.get_command(app)), ("make demo", Path("runs/demo"))}
    assert {path.parts[0] for _, path in outputs} == {"runs", "reproduction", "theory", "bench-scale.png"}
    for name, path in outputs:
        file = path if path.suffix else path / "any.file"
        assert git("check-ignore", "--quiet", str(file)).returncode == 0, f"{name} writes {path}"


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_make_clean_leaves_sources_and_the_results_of_the_user(tmp_path: Path):
    kept = ["src/adamplus/optim/_execution/native.c", "tests/test_a.py", "theory/report.json", "runs/mine/table.csv"]
    made = [
        ".venv/.ready",
        ".venv-oldest/.ready",
        "src/adamplus/optim/_execution/native.c.so",
        "src/adamplus/__pycache__/cli.cpython-311.pyc",
        "tests/lab/__pycache__/cases.cpython-311.pyc",
        "runs/demo/report.html",
        "site/index.html",
        "dist/adamplus.whl",
        *(f"{name}/any" for name in (".pytest_cache", ".ruff_cache", ".hypothesis", "build")),
        ".coverage",
        ".coverage.host.1",
    ]
    for name in [*kept, *made]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for folder in ("src", "tests", "benchmarks", "docs", "examples"):
        (tmp_path / folder).mkdir(exist_ok=True)
    subprocess.run(["make", "-f", ROOT / "Makefile", "clean"], cwd=tmp_path, capture_output=True, check=True)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == set(kept)


@pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")
def test_workflows_run_targets_and_files_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    found = 0
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert {"name", "jobs", "permissions"} <= set(workflow), path.name
        assert True in workflow, f"{path.name} says when it runs"  # YAML 1.1 reads `on` as true
        for job in workflow["jobs"].values():
            assert job["runs-on"] == "ubuntu-latest"
            for step in job["steps"]:
                assert len({"uses", "run"} & set(step)) == 1, step
                called = set(re.findall(r"\bmake ([a-z-]+)", step.get("run", "")))
                assert called <= targets
                files = re.findall(r"\btests/[\w/]+\.py|[\w-]+\.txt", step.get("run", ""))
                assert all((ROOT / name).exists() for name in files)
                found += len(called) + len(files)
    assert found >= 4


@pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")
def test_ci_tests_every_python_that_the_project_names():
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
    named = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert jobs["test"]["strategy"]["matrix"]["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    versions = [
        step["with"]["python-version"] for step in jobs["oldest"]["steps"] if "python-version" in step.get("with", {})
    ]
    assert versions == [named[0]]


def test_the_oldest_versions_are_the_floors_of_the_project():
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in extras.values() for line in extra)]
    floors: dict[str, str] = {}
    for line in lines:
        name, version = re.split(r"(?:\[\w+\])?>=", line.partition(";")[0].strip())
        floors[name] = version
    exact = dict(
        line.split("==") for line in (ROOT / "constraints-oldest.txt").read_text().splitlines() if "==" in line
    )
    assert "torch" in exact
    for name, version in exact.items():
        assert version == floors[name] or version == f"{floors[name]}.0", name
    for page in ("README.md", "docs/index.md"):
        assert re.search(rf"torch {floors['torch']}\b", (ROOT / page).read_text()), page


def test_constraints_do_not_contradict_each_other():
    """With torch's build for CUDA installed, this includes the Triton that it requires."""
    lines = (line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    pins = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines if line)}
    compared = 0
    for name, version in pins.items():
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if found.version.partition("+")[0] != version:
            continue
        for requirement in map(Requirement, found.requires or []):
            other = canonicalize_name(requirement.name)
            if other in pins and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                assert requirement.specifier.contains(pins[other]), f"{name} {version} requires {requirement}"
                compared += 1
    assert compared > 0
