"""The local engine: worker processes of this machine, which import torch once and train one run after another.

Each worker leads a process group, so that the processes that its task has started can be killed with it. Ctrl-C and
Ctrl-Z do not reach such a group: this process stops and suspends its workers.

After Ctrl-C, workers on a GPU save their runs after the epoch and end; a second Ctrl-C kills them. On a CPU they are
killed at once, because an epoch may take long there, and nothing else suffers.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from .._store import Spec, Store
from .attempt import MAX_DEATHS, EndedRun, Reply, ended_run, epochs_done, give_up
from .engine import Execute

COMMAND = "from adamplus.lab.engines.worker import serve; serve()"
LOOK_EVERY = 1.0
"""Seconds between two looks at whether a worker still runs: another process may hold its end of the pipe."""
PATIENCE = {"cuda": 120.0, "cpu": 0.0}
"""The most seconds that workers get after Ctrl-C to end their epochs, by the kind of the device."""
LONGEST_END = 10.0
"""The most seconds to wait for a killed process, which the kernel cannot end while a disk or device blocks it."""


@contextmanager
def start(root: Path, workers: int | None = None) -> Iterator[Execute]:
    """Start workers. Default: one per core, or one on a GPU."""
    started: list[_Worker] = []

    def execute(specs: Sequence[Spec], done: Callable[[EndedRun], None]) -> None:
        default = _cores() if all(spec.device == "cpu" for spec in specs) else 1
        number = max(1, min(workers or default, len(specs)))
        started.extend(_Worker(root, i) for i in range(len(started) + 1, number + 1))
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in started:
            idle.put(worker)

        def train_one(spec: Spec) -> EndedRun:
            worker = idle.get()
            try:
                return worker.train(spec)
            finally:
                idle.put(worker)

        # One thread per worker, which only waits for it.
        pool = ThreadPoolExecutor(number)
        try:
            for future in as_completed([pool.submit(train_one, spec) for spec in specs]):
                done(future.result())
        except KeyboardInterrupt:
            _end_orderly(started, PATIENCE[specs[0].device.partition(":")[0]])
            raise
        except BaseException:
            for worker in started:
                worker.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    try:
        with _suspended_together(started):
            yield execute
    finally:
        for worker in started:
            worker.stop()


class _StoppedError(Exception):
    """The engine was stopped while a run was waiting for a worker."""


class _Worker:
    """A process that reads runs from its standard input, and ends when that closes, at the latest with this process."""

    def __init__(self, root: Path, number: int) -> None:
        self.root = root.resolve()
        self.log = self.root / "logs" / f"worker-{number}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False
        self.changing = threading.Lock()

    def train(self, spec: Spec) -> EndedRun:
        cause, deaths, run = "", 0, Store(self.root).run(spec)
        furthest = epochs_done(run)
        while deaths < MAX_DEATHS:
            process = self._running()
            if (reply := self._request(process, spec)) is not None:
                return ended_run(spec, reply)
            if self.stopped:  # `stop` kills what is left
                raise _StoppedError
            process.wait()
            _signal_group(process, signal.SIGKILL)
            cause, reached = _cause_of_death(process.returncode), epochs_done(run)
            deaths = 1 if reached > furthest else deaths + 1
            furthest = max(furthest, reached)
        log = self.log.relative_to(self.root)
        failure = f"worker died {MAX_DEATHS} times and got no further ({cause}; its output is in {log})"
        return give_up(spec, self.root, failure)

    def ask_to_end(self) -> "subprocess.Popen[bytes] | None":
        """Let the process end after the epoch of its run, and return it if it runs. It gets no other run."""
        with self.changing:
            self.stopped = True
            if self.process is None or self.process.returncode is not None:
                return None  # its number may be that of another process by now
            self.process.send_signal(signal.SIGINT)
            return self.process

    def stop(self) -> None:
        """Kill the process and those that it has started. Its run continues from the checkpoint at the next attempt."""
        with self.changing:
            self.stopped = True
            if self.process is not None and self.process.returncode is None:
                _signal_group(self.process, signal.SIGKILL)
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(LONGEST_END)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs, and to those that it has started."""
        if self.process is not None and self.process.returncode is None:
            _signal_group(self.process, number)

    def _running(self) -> subprocess.Popen[bytes]:
        with self.changing:
            if self.stopped:
                raise _StoppedError
            if self.process is not None and self.process.returncode is None and self.process.poll() is not None:
                _signal_group(self.process, signal.SIGKILL)  # it died between two runs
            if self.process is None or self.process.returncode is not None:
                self.process = self._start()
            return self.process

    def _start(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", COMMAND],
                process_group=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def _request(self, process: subprocess.Popen[bytes], spec: Spec) -> Reply | None:
        """Send a run to the process and wait for its reply; None if it died."""
        assert process.stdin is not None
        request = {"spec": asdict(spec), "root": str(self.root)}
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self._read_line(process)
        return Reply(**json.loads(line)) if line.endswith(b"\n") else None

    def _read_line(self, process: subprocess.Popen[bytes]) -> bytes:
        """Read a line of the process's output, or what there is of it if the process ends."""
        assert process.stdout is not None
        line, ended = b"", False
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if selector.select(0 if ended else LOOK_EVERY):
                    if not (content := os.read(process.stdout.fileno(), 1 << 16)):
                        break
                    line += content
                elif ended or self.stopped:
                    break
                else:  # what it wrote just before its end is read once more
                    ended = process.poll() is not None
        return line


def _end_orderly(workers: Sequence[_Worker], seconds: float) -> None:
    """Let workers end after their epochs, and stop those that have not ended in time, or before a second Ctrl-C."""
    until = time.monotonic() + seconds
    try:
        if seconds:
            print("Finishing epochs; press Ctrl-C again to kill the workers", flush=True)  # above a live display
            for process in [process for worker in workers if (process := worker.ask_to_end()) is not None]:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, until - time.monotonic()))
                    _signal_group(process, signal.SIGKILL)  # processes that it has started and left
    finally:
        for worker in workers:
            worker.stop()


@contextmanager
def _suspended_together(workers: Sequence[_Worker]) -> Iterator[None]:
    """Suspend the workers while Ctrl-Z suspends this process."""

    def suspend(*_: object) -> None:
        for worker in workers:
            worker.send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)  # returns when this process is continued
        for worker in workers:
            worker.send(signal.SIGCONT)

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTSTP) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTSTP, suspend)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a worker and to the processes that it has started, if there are any left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cause_of_death(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
