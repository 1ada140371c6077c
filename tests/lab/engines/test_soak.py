"""A soak test: an hour of random kills, damaged files and resumed comparisons must not change a number.

`SOAK_SECONDS=600 pytest tests/lab/engines/test_soak.py -s` runs it for ten minutes and prints what it did.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from small_comparison import numbers, write_task

SECONDS = float(os.environ.get("SOAK_SECONDS", "3600"))
LONGEST = 300.0
"""The most seconds that a comparison may take without a kill: more is taken for a process that waits for ever."""
SLOW_EPOCHS = '__import__("time").sleep(0.05)'
# A worker of 50 ms an epoch would end before its first checkpoint. This writes one after every epoch.
CHECKPOINTS = """
from functools import partial

from adamplus.lab.engines import attempt

attempt.train = partial(attempt.train, checkpoint_every=0.0)
"""


class Comparison:
    """The command of a comparison, in a process group of its own."""

    def __init__(self, task: str, out: Path, engine: str) -> None:
        command = ["compare", task, "--optimizers", "adam-plus,msgd", "--seeds", "3", "--tune", "3"]
        command += ["--workers", "2", "--engine", engine, "--out", str(out)]
        self.log = out.with_suffix(".log")
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "adamplus.cli", *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
                process_group=0,
                # A shell ignores SIGINT in what it starts in the background, and processes inherit that.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def complete(self) -> None:
        """Wait for the end, which must be a success."""
        assert self.process.wait(LONGEST) == 0, self.log.read_text()[-5000:]

    def kill_after(self, seconds: float, chance: random.Random) -> str:
        """Kill the command alone, or with its processes, or interrupt it. Returns which, or "ended"."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            how = chance.choice(["SIGKILL", "SIGKILL of the group", "SIGINT", "SIGTERM"])
            if how == "SIGKILL of the group":
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.send_signal(signal.Signals[how])
            self.process.wait(LONGEST)
            return how
        assert self.process.returncode == 0, self.log.read_text()[-5000:]
        return "ended"


def damage(root: Path, chance: random.Random) -> str | None:
    """Damage a random file of a comparison. Returns how, or None if there is no file."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_relative_to(root / "aside"))
    if not files:
        return None
    path = chance.choice(files)
    content, how = bytearray(path.read_bytes()), chance.choice(["flipped bit", "cut", "longer", "empty", "removed"])
    if how == "removed":
        path.unlink()
        return how
    if how == "flipped bit" and content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif how == "cut":
        del content[chance.randrange(len(content) + 1) :]
    elif how == "longer":
        content += chance.randbytes(chance.randrange(1, 200))
    elif how == "empty":
        content.clear()
    path.write_bytes(content)
    return how


@pytest.mark.slow
def test_kills_and_damaged_files_change_no_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("ray")
    task = write_task(tmp_path / "plane.py", SLOW_EPOCHS)
    Path(task).write_text(Path(task).read_text() + CHECKPOINTS)
    chance, did = random.Random(0), Counter[str]()
    Comparison(task, tmp_path / "undisturbed", "local").complete()
    expected = numbers(tmp_path / "undisturbed")
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        engine, out = chance.choice(["local", "ray"]), tmp_path / "disturbed"
        for _ in range(chance.randrange(1, 8)):
            did[f"{engine}: {Comparison(task, out, engine).kill_after(chance.uniform(0, 25), chance)}"] += 1
            if chance.random() < 0.5 and (how := damage(out, chance)) is not None:
                did[f"file: {how}"] += 1
        Comparison(task, out, engine).complete()
        assert numbers(out) == expected, out.with_suffix(".log").read_text()[-5000:]
        did["comparisons with the numbers of the undisturbed one"] += 1
        shutil.rmtree(out)
    assert did["comparisons with the numbers of the undisturbed one"]
    with capsys.disabled():
        print(f"\nSoak test of {SECONDS:.0f} s: " + ", ".join(f"{name} {count}" for name, count in sorted(did.items())))
