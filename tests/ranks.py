"""Workers on several processes, forked from one that has imported torch; with torchrun, each rank imports it."""

import multiprocessing
import os
import runpy
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

SECONDS = 600
PRELOADED = [
    "pytest",
    "torch._dynamo",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch.distributed.optim",
    "torch.distributed.tensor.parallel",
    "adamplus.optim._execution.fused.tables",
]
Run: TypeAlias = Callable[..., None]
"""Type of `run_ranks`, which tests get as the fixture `run`."""


@contextmanager
def serving() -> Iterator[Run]:
    """Start the process that ranks are forked from, and end it. If coverage is measured here, it is measured there."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    yield run_ranks
    server: Any = forkserver._forkserver
    server._stop()  # else it would write its coverage after the files of all processes were combined


def run_ranks(processes: int, worker: Path, *arguments: object) -> None:
    """Run a script as torchrun does, and raise with what it printed if a process fails.

    Args:
        processes: the number of ranks; 0 runs the script alone, without a process group.
        worker: the script.
        arguments: arguments of the script.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    group = {
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # all ranks are clients of the store
    }
    ranks: list[ForkServerProcess] = []
    with TemporaryDirectory() as folder:
        outputs = [Path(folder, str(i)) for i in range(max(processes, 1))]
        for i, output in enumerate(outputs):
            own = {**group, "RANK": str(i), "LOCAL_RANK": str(i)} if processes else {}
            command = [str(worker), *map(str, arguments)]
            context = multiprocessing.get_context("forkserver")
            ranks.append(context.Process(target=_run, args=(command, {**os.environ, **own}, output), daemon=True))
            ranks[-1].start()
        codes = _wait(ranks)
        assert not any(codes), f"exit codes {codes}\n" + "\n".join(output.read_text() for output in outputs)


def _wait(ranks: list[ForkServerProcess]) -> list[int | None]:
    """Wait until all processes have ended, and return their exit codes. If one fails, the others are killed."""
    until = time.monotonic() + SECONDS
    while any(rank.exitcode is None for rank in ranks):
        if any(rank.exitcode for rank in ranks) or time.monotonic() > until:
            time.sleep(1)  # so that others can print their errors
            for rank in ranks:
                rank.kill()
        for rank in ranks:
            rank.join(0.05)
    return [rank.exitcode for rank in ranks]


def _run(command: list[str], environment: Mapping[str, str], output: Path) -> None:
    """Be one of the processes: execute a script with its arguments, in this environment."""
    os.environ.clear()
    os.environ.update(environment)
    if "COVERAGE_PROCESS_CONFIG" not in environment:  # a test that is marked `uncovered`
        sys.settrace(None)
    torch.set_num_threads(1)
    with output.open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = command
    sys.path.insert(0, str(Path(command[0]).parent))
    runpy.run_path(command[0], run_name="__main__")
