"""examples/train_fsdp.py: an interrupted run ends with the bits of an uninterrupted one."""

import importlib.util
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

WORKER = Path(__file__).parent / "workers" / "killed.py"
TINY = ("--layers=1", "--width=18", "--heads=2", "--context=16", "--batch=8", "--report=4")
SHORT = (*TINY, "--steps=12", "--every=4")
LONG = (*TINY, "--steps=400", "--every=10")
SECONDS = 240


class Launch:
    """A torchrun of the example with all of its processes, which have MARK in their environment."""

    MARK = "ADAMPLUS_TEST_LAUNCH"

    def __init__(self, out: Path, *options: str, ranks: int = 2, restarts: int = 0, kill_at: str = "") -> None:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command += [f"--max-restarts={restarts}", str(WORKER), f"--out={out}", *options]
        self.mark = f"{self.MARK}={out}"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", self.MARK: str(out), "KILL_AT": kill_at}
        self.torchrun = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def end(self) -> tuple[int, str, str]:
        """Wait for the end. No process is left behind, even after an error."""
        try:
            stdout, stderr = self.torchrun.communicate(timeout=SECONDS)
            assert not self.processes(), "torchrun left processes behind"
            return self.torchrun.returncode, stdout, stderr
        finally:
            self.kill(self.processes())

    def processes(self, rank: int | None = None) -> list[int]:
        """Ids of the running processes, of all ranks or of one."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                environment = path.read_bytes().decode(errors="replace").split("\0")
            except OSError:  # it has ended, or belongs to another user
                continue
            if self.mark in environment and (rank is None or f"RANK={rank}" in environment):
                found.append(int(path.parent.name))
        return found

    @staticmethod
    def kill(pids: list[int]) -> None:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def finish(launch: Launch) -> str:
    """Last line of the output of a run that must succeed."""
    code, stdout, stderr = launch.end()
    assert code == 0, stderr
    return stdout.splitlines()[-1]


def fail(launch: Launch) -> None:
    code, _, stderr = launch.end()
    assert code != 0
    assert "SIGKILL" in stderr, stderr


def losses(last_line: str) -> list[float]:
    return [float(number) for number in re.findall(r"loss ([0-9.e+-]+)", last_line)]


def names(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())


def state(out: Path) -> dict[str, Any]:
    """Content of the last checkpoint, gathered from all ranks."""
    whole = out.parent / f"{out.name}.whole.pt"
    dcp_to_torch_save(max(out.glob("step-*")), whole)
    return torch.load(whole)


def assert_same(one: Any, other: Any) -> None:
    """Assert that all tensors and settings are equal, bit for bit."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one, other = list(one.values()), [other[key] for key in one]
    if isinstance(one, list):
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert one == other


def assert_same_end(out: Path, last_line: str, uninterrupted: tuple[Path, str]) -> None:
    straight, straight_line = uninterrupted
    assert losses(last_line) == losses(straight_line)
    assert_same(torch.load(out / "model.pt"), torch.load(straight / "model.pt"))
    assert_same(state(out), state(straight))
    assert names(out) == names(straight)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("uninterrupted") / "out"
    return out, finish(Launch(out, *SHORT))


def test_two_checkpoints_are_kept_and_w_is_shipped(uninterrupted: tuple[Path, str]):
    out, last_line = uninterrupted
    assert names(out) == ["model.pt", "step-00000008", "step-00000012"]
    assert len(losses(last_line)) == 2
    checkpoint = state(out)
    assert checkpoint["optimizer"]["param_groups"][0]["training"] is True
    shipped = torch.load(out / "model.pt")
    for name, w_hat in checkpoint["model"].items():
        own = checkpoint["optimizer"]["state"][name]
        assert own["step"] == 12
        # float32, computed by other operations
        torch.testing.assert_close(shipped[name], w_hat + own["offset"] * own["z"], rtol=1e-6, atol=1e-7)
        assert own["z"].any() == (not torch.equal(shipped[name], w_hat))


def test_torchrun_resumes_after_kills_in_a_step_and_in_a_checkpoint_with_the_same_bits(
    tmp_path: Path, uninterrupted: tuple[Path, str]
):
    out = tmp_path / "out"
    code, stdout, stderr = Launch(out, *SHORT, restarts=2, kill_at="step rename").end()
    assert code == 0, stderr
    # The second checkpoint was complete but not renamed, so it was not loaded.
    assert re.findall(r"from step (\d+)", stdout) == ["0", "4", "4"]
    assert_same_end(out, stdout.splitlines()[-1], uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", ["shard", "metadata", "rename"])
def test_after_a_kill_in_a_checkpoint_the_same_command_loads_the_one_before_it(
    kill_at: str, tmp_path: Path, uninterrupted: tuple[Path, str]
):
    out = tmp_path / "out"
    fail(Launch(out, *SHORT, kill_at=kill_at))
    assert names(out) == ["step-00000004", "writing-00000008"]
    assert (out / "writing-00000008" / ".metadata").exists() == (kill_at == "rename")
    code, stdout, stderr = Launch(out, *SHORT).end()
    assert code == 0, stderr
    assert "from step 4\n" in stdout
    assert_same_end(out, stdout.splitlines()[-1], uninterrupted)


@pytest.mark.slow
def test_after_a_kill_in_a_step_the_same_command_ends_with_the_same_bits(
    tmp_path: Path, uninterrupted: tuple[Path, str]
):
    out = tmp_path / "out"
    fail(Launch(out, *SHORT, kill_at="step"))
    assert_same_end(out, finish(Launch(out, *SHORT)), uninterrupted)
    # Once more: nothing is left to do, and the last line is the same.
    assert_same_end(out, finish(Launch(out, *SHORT)), uninterrupted)


def flip(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped bit": lambda folder: flip(folder / "__1_0.distcp"),
    "a truncated file": lambda folder: os.truncate(folder / "__0_0.distcp", 1000),
    "a missing file": lambda folder: (folder / "__0_0.distcp").unlink(),
    "a flipped bit in the list of files": lambda folder: flip(folder / ".metadata"),
    "no list of files": lambda folder: (folder / ".metadata").unlink(),
    "no digests": lambda folder: (folder / "digests.json").unlink(),
    "half of the digests": lambda folder: os.truncate(folder / "digests.json", 100),
    "no digest at all": lambda folder: (folder / "digests.json").write_text("{}"),
    "brackets in place of the digests": lambda folder: (folder / "digests.json").write_text("[" * 100_000),
}


def copied(uninterrupted: tuple[Path, str], out: Path) -> Path:
    """Copy the folder of the run, without the final model."""
    shutil.copytree(uninterrupted[0], out)
    (out / "model.pt").unlink()
    return out


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_leads_to_the_same_bits(
    tmp_path: Path, uninterrupted: tuple[Path, str]
):
    out = copied(uninterrupted, tmp_path / "out")
    DAMAGES["a flipped bit"](out / "step-00000012")
    code, stdout, stderr = Launch(out, *SHORT).end()
    assert code == 0, stderr
    lines = stdout.splitlines()
    damage = "is damaged (__1_0.distcp is not as it was written)"
    assert lines[0] == f"{out}/step-00000012 {damage}: set aside, going on from step-00000008"
    assert lines[1] == "2 ranks on cpu, from step 8"
    shutil.rmtree(out / "damaged-step-00000012")
    assert_same_end(out, lines[-1], uninterrupted)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The example as a module, in a process group of this process alone."""
    path = Path(__file__).parents[2] / "examples" / "train_fsdp.py"
    spec = importlib.util.spec_from_file_location("train_fsdp", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield module
    dist.destroy_process_group()


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_of_a_checkpoint_is_found(
    name: str, tmp_path: Path, uninterrupted: tuple[Path, str], example: ModuleType, capsys: pytest.CaptureFixture[str]
):
    out = copied(uninterrupted, tmp_path / "out")
    assert example.newest_whole(out) == out / "step-00000012"
    DAMAGES[name](out / "step-00000012")
    assert example.newest_whole(out) == out / "step-00000008"
    assert capsys.readouterr().out.startswith(f"{out}/step-00000012 is damaged (")
    assert names(out) == ["damaged-step-00000012", "step-00000008"]
    DAMAGES[name](out / "step-00000008")
    with pytest.raises(SystemExit, match=r"^all checkpoints in .* are damaged \(step-00000008: .*\): remove them to"):
        example.newest_whole(out)
    assert names(out) == ["damaged-step-00000012", "step-00000008"]
    assert example.newest_whole(tmp_path / "empty") is None


@pytest.mark.slow
def test_if_every_checkpoint_is_damaged_all_ranks_end_with_an_error(tmp_path: Path, uninterrupted: tuple[Path, str]):
    out = copied(uninterrupted, tmp_path / "out")
    DAMAGES["a truncated file"](out / "step-00000012")
    DAMAGES["a flipped bit"](out / "step-00000008")
    code, stdout, stderr = Launch(out, *SHORT).end()
    assert code != 0
    assert stdout == ""
    problem = (
        "step-00000012: __0_0.distcp is not as it was written; step-00000008: __1_0.distcp is not as it was written"
    )
    message = f"all checkpoints in {out} are damaged ({problem}): remove them to train from the beginning"
    assert stderr.count(message) == 2
    assert names(out) == ["step-00000008", "step-00000012"]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 4])
def test_a_run_continues_with_another_number_of_ranks(ranks: int, tmp_path: Path, uninterrupted: tuple[Path, str]):
    out = tmp_path / "out"
    finish(Launch(out, *TINY, "--steps=8", "--every=4"))
    code, stdout, stderr = Launch(out, *SHORT, ranks=ranks).end()
    assert code == 0, stderr
    assert f"{ranks} ranks on cpu, from step 8\n" in stdout
    # Gradients of other parts of a batch are rounded to bfloat16 elsewhere: 2⁻⁹ of each, over four steps.
    assert losses(stdout.splitlines()[-1]) == pytest.approx(losses(uninterrupted[1]), rel=1e-3)


@pytest.mark.slow
def test_a_run_that_is_killed_at_random_times_ends_with_the_same_bits(tmp_path: Path):
    """Kills may hit a forward or backward pass, a collective, an evaluation or a checkpoint."""
    straight, out = tmp_path / "straight", tmp_path / "out"
    straight_line = finish(Launch(straight, *LONG))
    kills, chance = 5, random.Random(0)
    launch = Launch(out, *LONG, restarts=kills)
    try:
        for _ in range(kills):
            before, deadline = set(out.glob("step-*")), time.monotonic() + SECONDS
            while set(out.glob("step-*")) <= before:
                assert launch.torchrun.poll() is None, launch.torchrun.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.5))
            launch.kill(launch.processes(rank=chance.randrange(2)))
    except BaseException:
        launch.kill(launch.processes())
        raise
    code, stdout, stderr = launch.end()
    assert code == 0, stderr
    assert len(re.findall("from step", stdout)) == kills + 1
    assert_same_end(out, stdout.splitlines()[-1], (straight, straight_line))
