"""The local engine: worker processes of this machine, which import torch once and train one run after another."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from .._store import Spec, Store
from .attempt import MAX_DEATHS, EndedRun, Reply, ended_run, epochs_done, give_up
from .engine import Execute

# Ctrl-C also reaches the workers, which ignore it: the parent stops them.
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from adamplus.lab.engines.worker import serve; serve()"
)


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
        except BaseException:
            for worker in started:
                worker.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    try:
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
            cause, reached = _cause_of_death(process.wait()), epochs_done(run)
            deaths = 1 if reached > furthest else deaths + 1
            furthest = max(furthest, reached)
        if self.stopped:
            raise _StoppedError
        log = self.log.relative_to(self.root)
        failure = f"worker died {MAX_DEATHS} times and got no further ({cause}; its output is in {log})"
        return give_up(spec, self.root, failure)

    def stop(self) -> None:
        """Kill the process. Its run continues from the checkpoint at the next attempt."""
        with self.changing:
            self.stopped = True
            if self.process is not None:
                self.process.kill()
                self.process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        with self.changing:
            if self.stopped:
                raise _StoppedError
            if self.process is None or self.process.poll() is not None:
                self.process = self._start()
            return self.process

    def _start(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def _request(self, process: subprocess.Popen[bytes], spec: Spec) -> Reply | None:
        """Send a run to the process and wait for its reply; None if it died."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            request = {"spec": asdict(spec), "root": str(self.root)}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            return None
        return Reply(**json.loads(line)) if line.endswith(b"\n") else None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cause_of_death(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
