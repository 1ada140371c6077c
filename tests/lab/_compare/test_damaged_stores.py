"""After a bit has flipped anywhere in a folder of runs, the same command ends with the same table."""

import csv
import io
import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from rich.console import Console
from small_comparison import here, numbers, write_task

from adamplus.lab._compare import comparison
from adamplus.lab._compare.comparison import compare
from adamplus.lab._store.store import CHECKPOINT, COMPARISON, END, METRICS, SETTINGS
from adamplus.lab.engines import attempt, local
from adamplus.lab.errors import InputError
from adamplus.lab.report.formats import to_csv
from adamplus.lab.report.results import read
from adamplus.lab.report.rows import rows
from adamplus.lab.report.write import print_report

STOPS_ONCE = """flag = Path(__file__ + ".stopped")
        if epoch == 3 and flag.exists():
            flag.unlink()
            raise KeyboardInterrupt"""


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """Use no processes, make no page, and write a checkpoint after every epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "start", here)
        patch.setattr(comparison, "show", lambda root, console, alone: None)
        patch.setattr(attempt, "train", partial(attempt.train, checkpoint_every=0.0))
        yield


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_task(tmp_path_factory.mktemp("task") / "plane.py", STOPS_ONCE)


@pytest.fixture(scope="module")
def finished(task: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("finished") / "runs"
    compare([task], ["adam-plus"], seeds=1, tune=2, out=root)
    return root


@pytest.fixture(scope="module")
def unfinished(task: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose first run was interrupted, with a checkpoint of its third epoch."""
    root = tmp_path_factory.mktemp("unfinished") / "runs"
    Path(task + ".stopped").touch()
    with pytest.raises(KeyboardInterrupt):
        compare([task], ["adam-plus"], seeds=1, tune=2, out=root)
    return root


def table(root: Path) -> list[dict[str, str]]:
    """The result table without times."""
    results = read(root)
    assert results.unreadable == {}
    text = to_csv([row for task in results.tasks for row in rows(results, task)])
    return [{k: v for k, v in row.items() if "second" not in k} for row in csv.DictReader(io.StringIO(text))]


def printed(root: Path) -> str:
    """What `adamplus report` prints, on one line."""
    out = io.StringIO()
    print_report(root, Console(file=out, width=400))
    return " ".join(out.getvalue().split())


def flip(path: Path, place: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def telling_places(path: Path) -> list[int]:
    """Places where a flipped bit leaves the file readable and changes a result: digits, and a byte of a weight."""
    content = path.read_bytes()
    if path.name == CHECKPOINT:
        (weight, *_) = torch.load(path, weights_only=True)["learner"]["model"].values()
        return [content.index(weight.numpy().tobytes())]
    keys = {METRICS: (b'"test_loss": 0.', b'"validation_loss": 0.'), END: (b'"state_bytes": ',)}
    keys |= {SETTINGS: (b'"parameters": ',), COMPARISON: (b'"tune": ',)}
    return [content.rindex(key) + len(key) for key in keys.get(path.name, ()) if key in content]


def flips(root: Path, number: int) -> Iterator[tuple[str, int, int]]:
    """Some flips in every file of every run and in comparison.json: the file, a place and a bit."""
    places = random.Random(number)
    for path in [root / COMPARISON, *sorted((root / "runs").glob("*/*/*/*"))]:
        name = path.relative_to(root).as_posix()
        yield from ((name, place, 0) for place in telling_places(path))
        for _ in range(number):
            yield name, places.randrange(path.stat().st_size), places.randrange(8)


def check_flips(root: Path, task: str, whole: Path, into: Path, number: int) -> set[str]:
    """Repeat a comparison after each of some flips; returns the names of the files of which one was found."""
    found, expected, arguments = set[str](), (table(whole), numbers(whole)), ([task], ["adam-plus"])
    for i, (name, place, bit) in enumerate(flips(root, number)):
        damaged = into / str(i)
        shutil.copytree(root, damaged)
        flip(damaged / name, place, bit)
        compare(*arguments, seeds=1, tune=2, out=damaged)
        assert (table(damaged), numbers(damaged)) == expected, (name, place, bit)
        if (damaged / "aside").exists():
            found.add(Path(name).name)
        shutil.rmtree(damaged)
    return found


def test_a_flipped_bit_of_a_finished_run_leads_to_the_same_table(finished: Path, task: str, tmp_path: Path):
    assert {SETTINGS, METRICS, END} <= check_flips(finished, task, finished, tmp_path, 1)


def test_a_flipped_bit_of_an_interrupted_run_leads_to_the_same_table(
    unfinished: Path, finished: Path, task: str, tmp_path: Path
):
    assert {SETTINGS, METRICS, CHECKPOINT} <= check_flips(unfinished, task, finished, tmp_path, 4)


@pytest.mark.parametrize("name", [SETTINGS, METRICS, END])
def test_a_report_names_the_damaged_run(finished: Path, tmp_path: Path, name: str):
    shutil.copytree(finished, tmp_path / "runs")
    path = next(iter(sorted((tmp_path / "runs" / "runs").glob(f"*/*/*/{name}"))))
    flip(path, path.stat().st_size // 2, 0)
    folder = path.parent.relative_to(tmp_path / "runs")
    assert f"Unreadable runs, which are left out: 1. The first: {folder}: {name} cannot be read: " in printed(
        tmp_path / "runs"
    )


def test_a_report_names_a_damaged_record(finished: Path, tmp_path: Path):
    shutil.copytree(finished, tmp_path / "runs")
    path = tmp_path / "runs" / COMPARISON
    path.write_text(path.read_text().replace('"tune": 2', '"tune": 3'))
    with pytest.raises(InputError, match=r"comparison.json cannot be read \(it has changed since it was written: .*\)"):
        read(tmp_path / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("which", ["finished", "unfinished"])
def test_many_flipped_bits_lead_to_the_same_table(
    which: str, task: str, tmp_path: Path, request: pytest.FixtureRequest
):
    root, finished = request.getfixturevalue(which), request.getfixturevalue("finished")
    check_flips(root, task, finished, tmp_path, 30)
