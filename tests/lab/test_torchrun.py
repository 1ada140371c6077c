"""Several processes that torchrun started train each run together, with the numbers of one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adamplus.lab._store import Store

HERE = Path(__file__).parent
COMPARE = ["-m", "adamplus.cli", "compare", str(HERE / "plain_blobs.py"), "--optimizers", "adam-plus,msgd"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def compare(*words: str, out: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, *words, *COMPARE, "--tune", "2", "--seeds", "1", "--out", str(out)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)


def test_a_comparison_of_several_processes_has_the_numbers_of_one(tmp_path: Path):
    for words, out in (([], tmp_path / "one"), (TORCHRUN, tmp_path / "two")):
        done = compare(*words, out=out)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Report:") == 1  # only the first process speaks
    one, two = Store(tmp_path / "one").runs(), Store(tmp_path / "two").runs()
    assert [run.folder.name for run in one] == [run.folder.name for run in two]
    for mine, theirs in zip(one, two, strict=True):
        for line, other in zip(mine.metrics(), theirs.metrics(), strict=True):
            # float32 sums of 16 rows, or of twice 8; over 52 steps
            assert {**other, "seconds": 0} == pytest.approx({**line, "seconds": 0}, rel=1e-4)


def test_processes_that_cannot_share_a_batch_say_so(tmp_path: Path):
    task = tmp_path / "odd.py"
    task.write_text((HERE / "plain_blobs.py").read_text() + "    batch = 15\n")
    command = [
        sys.executable,
        *TORCHRUN,
        *COMPARE[:3],
        str(task),
        "--optimizers",
        "sgd",
        "--out",
        str(tmp_path / "out"),
    ]
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "cannot share batches of 15 rows" in " ".join(done.stderr.split())
