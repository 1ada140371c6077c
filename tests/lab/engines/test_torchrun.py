"""The torchrun engine: several processes train each run together, with the numbers of one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_comparison import record

from adamplus.lab._store.store import Store
from adamplus.lab.engines import torchrun

HERE = Path(__file__).parents[1]
COMPARE = ["-m", "adamplus.cli", "compare", str(HERE / "plain_blobs.py"), "--optimizers", "adam-plus,msgd"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "400"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def compare(*arguments: str, out: Path) -> subprocess.CompletedProcess[str]:
    return run(*arguments, *COMPARE, "--tune", "2", "--seeds", "1", "--out", str(out))


@pytest.mark.slow
def test_a_comparison_of_several_processes_has_the_numbers_of_one(tmp_path: Path):
    for arguments, out in (([], tmp_path / "one"), (TORCHRUN, tmp_path / "two")):
        done = compare(*arguments, out=out)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Report:") == 1  # only rank 0 prints
    one, two = Store(tmp_path / "one").runs(), Store(tmp_path / "two").runs()
    names = [[run.folder.name.rpartition("-")[0] for run in runs] for runs in (one, two)]
    assert names[0] == names[1]
    assert not {run.folder.name for run in one} & {run.folder.name for run in two}  # they are different runs
    for mine, theirs in zip(one, two, strict=True):
        for line, other in zip(mine.metrics(), theirs.metrics(), strict=True):
            # float32 sums of 16 rows, or of twice 8; over 52 steps
            times = {"seconds": 0, "wall_seconds": 0}
            assert other | times == pytest.approx(line | times, rel=1e-4)


@pytest.mark.slow
def test_batches_that_processes_cannot_share_are_refused_before_the_first_run(tmp_path: Path):
    task = tmp_path / "odd.py"
    task.write_text((HERE / "plain_blobs.py").read_text() + "    batch = 15\n")
    done = run(*TORCHRUN, *COMPARE[:3], str(task), "--optimizers", "sgd", "--out", str(tmp_path / "out"))
    assert done.returncode != 0
    assert "the number of processes must divide the batch of 15 rows, got 2 processes" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


RAISES = """
    def schedule(self, now):
        if now.epoch == 1 and now.optimizer == "sgd":
            raise RuntimeError("the sky fell")
        return {}
"""


@pytest.mark.slow
def test_a_run_that_raises_in_every_process_fails_and_the_others_continue(tmp_path: Path):
    task, out = tmp_path / "raises.py", tmp_path / "out"
    task.write_text((HERE / "plain_blobs.py").read_text() + RAISES)
    options = ["--optimizers", "sgd,adam", "--seeds", "1", "--device", "cpu", "--out", str(out)]
    done = run(*TORCHRUN, *COMPARE[:3], str(task), *options)
    assert done.returncode == 1
    assert f"{task} · sgd · seed 1: RuntimeError: the sky fell" in done.stdout
    ends = {run.settings()["spec"]["label"]: run.end() or {} for run in Store(out).runs()}
    assert (ends["sgd"]["status"], ends["adam"]["status"]) == ("failed", "finished")
    assert "raises.py" in ends["sgd"]["traceback"]
    again = record(out)["command"]
    assert again.startswith(f"torchrun --nproc-per-node 2 -m adamplus.cli compare {task} --optimizers sgd,adam")
    assert "--device cpu" in again
    assert "--engine" not in again


@pytest.mark.parametrize(
    ("environment", "beginning"),
    [
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, "torchrun --nproc-per-node 8 -m adamplus.cli"),
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, "torchrun --nnodes 2 --nproc-per-node 4 -m adamplus.cli"),
    ],
)
def test_the_stored_command_starts_the_same_number_of_processes(
    environment: dict[str, str], beginning: str, monkeypatch: pytest.MonkeyPatch
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert " ".join(torchrun.command_prefix()) == beginning
