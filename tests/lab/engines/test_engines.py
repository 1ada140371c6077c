"""Engines: numbers do not depend on the engine, its workers, or kills during training."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_runs import DIES_ONCE, execute, planned
from small_comparison import here, numbers, write_task

from adamplus.lab._compare.plan import plan
from adamplus.lab._compare.request import Request
from adamplus.lab._store.store import Store
from adamplus.lab.engines import EndedRun, attempt, find, local
from adamplus.lab.engines.attempt import MAX_DEATHS

TESTS = Path(__file__).parents[2]
LOST_ONCE = """flag = Path(__file__ + ".lost")
        if epoch == 2 and not flag.exists():
            flag.touch()
            __import__("adamplus.lab.engines.training").lab.engines.training._is_lost = lambda device: True
            raise RuntimeError("CUDA error: an illegal memory access was encountered")"""
DIES = "if epoch == 1: os.kill(os.getpid(), signal.SIGKILL)"
LOADS = """if epoch == 1:
            data = torch.utils.data.TensorDataset(torch.arange(8.0))
            loader = torch.utils.data.DataLoader(data, num_workers=2, timeout=60, multiprocessing_context="METHOD")
            assert sorted(float(row) for batch in loader for row in batch[0]) == list(range(8))"""
READS_AND_PRINTS = """if (child := os.fork()) == 0:
            signal.alarm(20)
            files = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
            with open(0) as requests:
                print("read", requests.read().encode(), "pipes", sum("pipe:" in file for file in files), flush=True)
            os._exit(0)
        os.waitpid(child, 0)"""
# PyDLL's fork is unknown to Python: the child keeps the worker's pipes.
DIES_AND_LEAVES_A_CHILD = """flag = Path(__file__ + ".child")
        if epoch == 1 and not flag.exists():
            if (child := FORK()) == 0:
                __import__("time").sleep(120)
                Path(__file__ + ".slept").touch()
                os._exit(0)
            flag.write_text(str(child))
            os.kill(os.getpid(), signal.SIGKILL)"""
HAS_A_CHILD = """if epoch == 1:
            import subprocess
            child = subprocess.Popen(["sleep", "60"])
            new = Path(__file__ + ".new")
            new.write_text(str(child.pid))
            new.rename(__file__ + ".child")
            child.wait()"""


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(m, marks=pytest.mark.slow) for m in ("spawn", "forkserver"))]
)
def test_a_task_may_use_a_data_loader_with_workers(tmp_path: Path, method: str):
    (spec,) = planned(write_task(tmp_path / "plane.py", LOADS.replace("METHOD", method)), "sgd", seeds=1)
    (ended,) = execute(local.start, [spec], tmp_path / "runs", workers=1)
    assert ended.failure is None
    assert (Store(tmp_path / "runs").run(spec).end() or {}).get("reason") is None


def test_forked_processes_neither_take_requests_nor_mix_with_replies(tmp_path: Path):
    specs = planned(write_task(tmp_path / "plane.py", READS_AND_PRINTS), "sgd", seeds=2)
    ended = execute(local.start, specs, tmp_path / "runs", workers=1)
    assert [one.failure for one in ended] == [None, None]
    assert (tmp_path / "runs" / "logs" / "worker-1.log").read_text() == "read b'' pipes 0\n" * 8


@pytest.mark.parametrize("fork", ["os.fork", '__import__("ctypes").PyDLL(None).fork'])
def test_a_child_of_a_killed_worker_neither_delays_the_comparison_nor_outlives_the_worker(tmp_path: Path, fork: str):
    (spec,) = planned(write_task(tmp_path / "plane.py", DIES_AND_LEAVES_A_CHILD.replace("FORK", fork)), "sgd", seeds=1)
    (ended,) = execute(local.start, [spec], tmp_path / "runs", workers=1)
    assert ended.failure is None
    _wait_for(lambda: not _runs(int((tmp_path / "plane.py.child").read_text())), 5)
    assert not (tmp_path / "plane.py.slept").exists()  # the child was killed before the end of its sleep


def test_numbers_do_not_depend_on_the_number_of_workers(tmp_path: Path):
    specs = planned(write_task(tmp_path / "plane.py"), "adam-plus", "msgd")
    execute(here, specs, tmp_path / "none")
    for workers in (1, 2):
        ended = execute(local.start, specs, tmp_path / f"{workers}", workers)
        assert {one.spec.key() for one in ended} == {spec.key() for spec in specs}
        assert numbers(tmp_path / f"{workers}") == numbers(tmp_path / "none")


def test_another_worker_continues_the_run_of_a_killed_one(tmp_path: Path):
    specs = planned(write_task(tmp_path / "plane.py", DIES_ONCE), "adam-plus", "msgd", seeds=1)
    ended = execute(local.start, specs, tmp_path / "killed", workers=2)
    assert (tmp_path / "plane.py.died").exists()
    assert [one.failure for one in ended] == [None, None]
    execute(here, specs, tmp_path / "undisturbed")
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "undisturbed")


def test_another_worker_continues_the_run_of_one_that_lost_its_device(tmp_path: Path):
    specs = planned(write_task(tmp_path / "plane.py", LOST_ONCE), "msgd", seeds=2)
    ended = execute(local.start, specs, tmp_path / "lost", workers=1)
    assert "an illegal memory access" in (tmp_path / "lost" / "logs" / "worker-1.log").read_text()
    assert [one.failure for one in ended] == [None, None]
    execute(here, specs, tmp_path / "undisturbed")
    assert numbers(tmp_path / "lost") == numbers(tmp_path / "undisturbed")


def test_a_run_that_another_machine_began_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (spec,) = planned(write_task(tmp_path / "plane.py"), "sgd", seeds=1)
    Store(tmp_path / "runs").run(spec).begin({"spec": spec.to_json(), "hardware": "an abacus"})
    (ended,) = execute(here, [spec], tmp_path / "runs")
    assert ended.failure is None
    assert len(ended.notes) == 1
    assert "was begun by another version, machine or commit" in ended.notes[0]


@pytest.mark.slow
def test_a_run_that_loses_its_device_every_time_fails_with_that_reason(tmp_path: Path):
    always = LOST_ONCE.replace("epoch == 2 and not flag.exists()", "epoch == 1")
    lost, kind = write_task(tmp_path / "lost.py", always), write_task(tmp_path / "plane.py")
    specs = [*planned(lost, "sgd", seeds=1), *planned(kind, "sgd", seeds=1)]
    ended = {one.spec.task: one.failure for one in execute(local.start, specs, tmp_path / "runs", workers=1)}
    run = Store(tmp_path / "runs").run(specs[0])
    reason = "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert str(ended[lost]).startswith(f"{reason} (worker died {MAX_DEATHS} times and got no further (with status 70;")
    assert ended[kind] is None
    end = run.end()
    assert end is not None
    assert end["reason"] == ended[lost]
    assert "lost.py" in end["traceback"]
    assert not (run.folder / "lost.txt").exists()


def test_the_reason_of_a_lost_device_may_be_damaged(tmp_path: Path):
    specs = planned(write_task(tmp_path / "plane.py"), "sgd", seeds=2)
    for spec, content in zip(specs, (b"", b"CUDA \xff\n"), strict=True):
        run = Store(tmp_path / "runs").run(spec)
        run.begin({"spec": spec.to_json()})
        (run.folder / "lost.txt").write_bytes(content)
    failures = [attempt.give_up(spec, tmp_path / "runs", "worker died").failure for spec in specs]
    assert failures == [" (worker died)", "CUDA \ufffd (worker died)"]


@pytest.mark.slow
def test_a_run_that_kills_every_worker_fails_and_the_others_continue(tmp_path: Path):
    deadly, kind = write_task(tmp_path / "deadly.py", DIES), write_task(tmp_path / "plane.py")
    specs = [*planned(deadly, "sgd", seeds=1), *planned(kind, "sgd", seeds=1)]
    ended = {one.spec.task: one.failure for one in execute(local.start, specs, tmp_path / "runs", workers=1)}
    reason = f"worker died {MAX_DEATHS} times and got no further (by SIGKILL; its output is in logs/worker-1.log)"
    assert ended == {deadly: reason, kind: None}
    end = Store(tmp_path / "runs").run(specs[0]).end()
    assert end is not None
    assert (end["status"], end["reason"]) == ("failed", reason)


@pytest.mark.slow
def test_deaths_do_not_add_up_while_the_run_makes_progress(tmp_path: Path):
    hook = DIES_ONCE.replace('".died"', 'f".{epoch}"').replace("epoch == 2 and ", "")
    (spec,) = planned(write_task(tmp_path / "plane.py", hook), "sgd", seeds=1)
    (ended,) = execute(local.start, [spec], tmp_path / "runs", workers=1)
    assert len(list(tmp_path.glob("plane.py.*"))) == 4 > MAX_DEATHS
    assert ended.failure is None


def test_output_of_a_task_is_logged_and_a_full_disk_in_a_worker_stops_everything(tmp_path: Path):
    hook = "print('loud'); raise OSError(28, 'No space left on device')"
    specs = planned(write_task(tmp_path / "plane.py", hook), "sgd")
    with pytest.raises(OSError, match="No space left on device") as raised:
        execute(local.start, specs, tmp_path / "runs", workers=1)
    assert raised.value.errno == 28
    assert (tmp_path / "runs" / "logs" / "worker-1.log").read_text() == "loud\n"


@pytest.mark.parametrize(
    ("stop", "suspended"),
    [
        (signal.SIGKILL, False),
        pytest.param(signal.SIGKILL, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.slow),
    ],
)
def test_no_worker_and_no_process_of_a_task_outlives_a_comparison(
    tmp_path: Path, stop: signal.Signals, suspended: bool
):
    task, out, child = write_task(tmp_path / "plane.py", HAS_A_CHILD), tmp_path / "runs", tmp_path / "plane.py.child"
    started = _start_comparison(task, out)
    _wait_for(child.exists)
    assert not _no_run_is_locked(out)
    assert _runs(int(child.read_text()))
    if suspended:
        started.send_signal(signal.SIGTSTP)
        _wait_for(lambda: _is_suspended(started.pid) and _is_suspended(int(child.read_text())))
    started.send_signal(stop)
    output, _ = started.communicate(timeout=20)
    _wait_for(lambda: _no_run_is_locked(out), 30)
    _wait_for(lambda: not _runs(int(child.read_text())), 30)
    if stop == signal.SIGINT:
        assert started.returncode == 130
        assert f"the same command continues from here:\n  adamplus compare {task} --optimizers sgd" in output
        assert "Traceback" not in output


def test_workers_on_a_gpu_save_their_runs_before_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The device here is a CPU, with the patience of a GPU. One worker trains, and the other has no run left."""
    monkeypatch.setitem(local.PATIENCE, "cpu", 100.0)
    hook = """if epoch == 1 and not Path(__file__ + ".waits").exists():
            import subprocess
            child = subprocess.Popen(["sleep", "300"])
            Path(__file__ + ".child").write_text(str(child.pid))
            Path(__file__ + ".waits").touch()
            __import__("time").sleep(2)"""
    specs = [*planned(write_task(tmp_path / "quick.py"), "sgd", seeds=1)]
    specs += planned(write_task(tmp_path / "plane.py", hook), "adam-plus", seeds=1)

    def interrupted(_: EndedRun) -> None:
        _wait_for((tmp_path / "plane.py.waits").exists)
        raise KeyboardInterrupt

    began = time.monotonic()
    with (
        Store(tmp_path / "runs").lock(),
        local.start(tmp_path / "runs", 2) as run,
        pytest.raises(KeyboardInterrupt),
    ):
        run(specs, interrupted)
    assert time.monotonic() - began < 100
    last = Store(tmp_path / "runs").run(specs[1])
    assert last.end() is None
    assert (last.checkpoint() or {})["epoch"] == 2  # that in which it was asked to end
    _wait_for(lambda: not _runs(int((tmp_path / "plane.py.child").read_text())), 10)
    assert [one.failure for one in execute(local.start, specs, tmp_path / "runs", 1)] == [None, None]
    execute(here, specs, tmp_path / "undisturbed")
    assert numbers(tmp_path / "runs") == numbers(tmp_path / "undisturbed")


def test_a_second_ctrl_c_kills_workers_that_finish_their_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(local.PATIENCE, "cpu", 100.0)
    hook = """if epoch == 1 and not Path(__file__ + ".waits").exists():
            Path(__file__ + ".waits").touch()
            __import__("time").sleep(90)"""
    specs = [*planned(write_task(tmp_path / "quick.py"), "sgd", seeds=1)]
    specs += planned(write_task(tmp_path / "plane.py", hook), "adam-plus", seeds=1)
    again = threading.Timer(2.0, signal.raise_signal, [signal.SIGINT])

    def interrupted(_: EndedRun) -> None:
        _wait_for((tmp_path / "plane.py.waits").exists)
        again.start()
        raise KeyboardInterrupt

    began = time.monotonic()
    with Store(tmp_path / "runs").lock(), pytest.raises(KeyboardInterrupt), local.start(tmp_path / "runs", 2) as run:
        run(specs, interrupted)
    again.join()
    assert time.monotonic() - began < 60
    assert "Finishing epochs; press Ctrl-C again to kill the workers" in capsys.readouterr().out
    _wait_for(lambda: _no_run_is_locked(tmp_path / "runs"), 10)


def test_a_worker_that_ended_long_ago_gets_no_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its number may be that of another process by then."""
    worker = local._Worker(tmp_path, 1)
    worker.process = subprocess.Popen([sys.executable, "-c", ""])
    worker.process.wait()
    signals: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda number, _: signals.append(number))
    local._end_orderly([worker], 1.0)
    assert signals == []


def test_an_interrupt_that_a_task_raises_is_logged(tmp_path: Path):
    hook = "print('loud'); raise KeyboardInterrupt('by the task')"
    (ended,) = execute(local.start, planned(write_task(tmp_path / "plane.py", hook), "sgd", seeds=1), tmp_path / "runs")
    assert "worker died 3 times and got no further (with status 1;" in (ended.failure or "")
    log = (tmp_path / "runs" / "logs" / "worker-1.log").read_text().splitlines()
    assert log.count("loud") == log.count("KeyboardInterrupt: by the task") == 3


@pytest.mark.slow
def test_a_comparison_goes_on_after_ctrl_z(tmp_path: Path):
    hook = 'Path(__file__ + ".waits").touch()\n        __import__("time").sleep(1)'
    task, out = write_task(tmp_path / "plane.py", hook), tmp_path / "runs"
    started = _start_comparison(task, out)
    _wait_for((tmp_path / "plane.py.waits").exists)
    workers = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _parent(int(path.name)) == started.pid]
    assert workers
    started.send_signal(signal.SIGTSTP)
    _wait_for(lambda: all(_is_suspended(process) for process in (started.pid, *workers)))
    started.send_signal(signal.SIGCONT)
    assert started.wait(timeout=60) == 0


def _start_comparison(task: str, out: Path) -> "subprocess.Popen[str]":
    command = ["-m", "adamplus.cli", "compare", task, "--optimizers", "sgd", "--seeds", "1", "--out", str(out)]
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _runs(process: int) -> bool:
    """Whether a process is there, and no zombie."""
    return _status(process)[:1] not in ([], ["Z"])


def _is_suspended(process: int) -> bool:
    return _status(process)[:1] == ["T"]


def _parent(process: int) -> int | None:
    found = _status(process)
    return int(found[1]) if found else None


def _status(process: int) -> list[str]:
    """State and parent of a process, among others; empty if there is none."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def _wait_for(holds: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def _no_run_is_locked(root: Path) -> bool:
    """Whether no run is locked: workers lock what they train."""
    with (root / ".running").open("a+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


@pytest.mark.parametrize(
    ("engine", "epoch", "seeds", "shortest", "longest"),
    # Enough training that no comparison completes before the tenth kill, even on a fast machine.
    [("here", 0.1, 3, 0.02, 0.6), pytest.param("local", 0.3, 8, 0.0, 1.6, marks=pytest.mark.slow)],
)
def test_ten_kills_at_random_moments_change_nothing(
    tmp_path: Path, engine: str, epoch: float, seeds: int, shortest: float, longest: float
):
    task = write_task(tmp_path / "plane.py", f"__import__('time').sleep({epoch})")
    script = [sys.executable, str(TESTS / "lab" / "engines" / "workers" / "killed.py"), engine, task, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    arguments = [*script, *map(str, (seeds, shortest, longest))]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    kills, *epochs = map(int, done.stdout.split())
    assert kills == 10, epochs
    assert len(set(epochs)) > 2  # there was progress between them
    assert numbers(tmp_path / "disturbed") == numbers(tmp_path / "undisturbed")
    assert len(numbers(tmp_path / "disturbed")) == 2 * (3 + seeds)
    assert not (tmp_path / "disturbed" / "aside").exists()


def test_a_worker_makes_the_device_of_a_run_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (spec,) = planned(write_task(tmp_path / "plane.py"), "sgd", seeds=1)
    current: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(attempt, "train", lambda spec, run: current.append("trains"))
    attempt.attempt(replace(spec, device="cuda:1"), tmp_path)
    assert current == ["cuda:1", "trains"]


@pytest.mark.parametrize(("engine", "device"), [("local", "cuda:0"), ("ray", "cuda"), ("torchrun", "cuda")])
def test_the_stored_command_names_a_device_that_its_engine_accepts(tmp_path: Path, engine: str, device: str):
    task = write_task(tmp_path / "plane.py")
    found = plan(Request([task], ["sgd"], device="cuda", engine="ray")).request  # with Ray, CUDA is not needed here
    words = replace(found, engine=engine).command().split()
    assert words[words.index("--device") + 1] == device


def test_engines_are_found_by_name():
    assert find("local") is local.start
