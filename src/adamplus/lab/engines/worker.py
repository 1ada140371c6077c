"""A worker process of the local engine: it reads runs from standard input, one per line, and prints replies.

A task may start processes of its own, as a DataLoader with workers does. They get the null device as standard input
and the log as standard output, so that they neither take requests nor mix with replies. The worker leads their process
group, which is killed when the worker ends.

SIGINT asks for an orderly end, after the epoch: NVIDIA's MPS, by which processes share a GPU, does not survive clients
that end while their kernels run.
"""

import gc
import json
import os
import signal
import sys
import threading
import traceback
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch

from .._store import Spec
from .attempt import attempt
from .training import STOP

STOPPED_STATUS = 130
"""Exit status of a worker that has saved its run and ended, as it was asked to."""


def serve() -> None:
    """Train the requested runs until standard input closes, or SIGINT arrives."""
    for number in (signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)  # a task that asks the terminal gets an error instead of being suspended
    requests_pipe, replies_pipe = pipes = [os.dup(0), os.dup(1)]
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)  # what a task prints goes to the log
    # Programs that a task starts do not inherit the pipes, but forked processes do.
    os.register_at_fork(after_in_child=lambda: _close(pipes))
    requests: SimpleQueue[dict[str, Any] | None] = SimpleQueue()

    def end(*_: object) -> None:
        STOP.set()
        requests.put(None)  # if it waits for a request

    signal.signal(signal.SIGINT, end)
    threading.Thread(target=_listen, args=(requests_pipe, requests), daemon=True).start()
    gc.collect()
    gc.freeze()  # imported modules: collecting among them takes 0.2 s, in the middle of an epoch
    while True:
        request = requests.get()
        try:
            if request is None or STOP.is_set():
                raise KeyboardInterrupt
            reply = attempt(Spec.from_json(request["spec"]), Path(request["root"]))
            _write(replies_pipe, json.dumps(asdict(reply)).encode() + b"\n")
        except BaseException as error:  # an orderly exit would wait for processes that the task has started
            asked = isinstance(error, KeyboardInterrupt) and STOP.is_set()  # else the task itself has raised it
            if not asked:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            if asked and torch.cuda.is_initialized():
                torch.cuda.synchronize()
            os._exit(STOPPED_STATUS if asked else 1)


def _listen(pipe: int, requests: SimpleQueue[dict[str, Any] | None]) -> None:
    """Pass requests on. When the pipe closes, the parent is gone: end this process, even in the middle of a run.

    `sys.stdin` is not used: its lock would be held while this waits, and a forked process that closes it would wait
    for the lock without end.
    """
    unread = b""
    while content := os.read(pipe, 1 << 16):
        *lines, unread = (unread + content).split(b"\n")
        for line in lines:
            requests.put(json.loads(line))
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with the processes that the task has started
    os._exit(0)


def _close(pipes: list[int]) -> None:
    """Close the pipes, once: in a process that is forked later, the numbers may be those of other files."""
    while pipes:
        os.close(pipes.pop())


def _write(pipe: int, content: bytes) -> None:
    """Write all of the content, without a buffer that a forked process could write again."""
    while content:
        content = content[os.write(pipe, content) :]
