"""One attempt at a run in a worker process, its reply to the engine, and the run's end for the comparison."""

import errno
import fcntl
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from .._run import prepare_process
from .._store import DEVICE_LOST, END, SETTINGS, CorruptError, Run, Spec, Store
from ..errors import InputError
from .training import DeviceLostError, train

MAX_DEATHS = 3
"""Consecutive deaths of a run's workers, without a new epoch between them, after which the run has failed."""
DEVICE_LOST_STATUS = 70
"""Exit status of a worker whose device was lost; the engine treats it as a worker that died."""


@dataclass
class Reply:
    """A worker's reply after an attempt; the results are in the run's folder."""

    failure: str | None = None
    """Why the run could not be trained; None if end.json says how it ended."""
    errno: int | None = None
    """Set if the store cannot be written, which concerns all runs."""
    notes: list[str] = field(default_factory=list)
    """Messages for the user, such as which run was set aside."""


@dataclass
class EndedRun:
    """A run that needs no further attempt; engines pass it to the comparison."""

    spec: Spec
    failure: str | None = None
    notes: list[str] = field(default_factory=list)


def attempt(spec: Spec, root: Path) -> Reply:
    """Train a run of the store at `root` in this process, from its checkpoint if it has one."""
    prepare_process(spec.device)
    store, reply = Store(root), Reply()
    run = store.run(spec)
    try:
        with _run_lock(spec, root):
            for again in (True, False):
                try:
                    if run.end() is None:
                        train(spec, run)
                        if "resumed" in run.settings():
                            reply.notes.append(_resumed_note(store, run))
                    return reply
                except CorruptError as error:
                    if not again:
                        raise
                    reply.notes.append(set_aside(store, run, error))
    except OSError as error:
        reply.failure = describe(error)
        if concerns_store(error, root):
            reply.errno = error.errno
        else:
            record_failure(run, reply.failure, traceback_text(error))
    except (InputError, CorruptError, SystemExit) as error:
        reply.failure = describe(error)
        record_failure(run, reply.failure, traceback_text(error))
    except DeviceLostError as error:  # every later run of this process would fail too
        with suppress(OSError):
            (run.folder / DEVICE_LOST).write_text(f"{error}\n{traceback_text(error)}", encoding="utf-8")
        exit_without_device(error)
    return reply


def exit_without_device(error: DeviceLostError) -> NoReturn:
    """Print the error and end this process: only another process can use the device again."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(DEVICE_LOST_STATUS)


def concerns_store(error: OSError, root: Path) -> bool:
    """Whether an error of the disk prevents all runs. A file that a task does not find concerns the task alone."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
        return True
    name = error.filename
    return isinstance(name, (str, bytes)) and Path(os.fsdecode(name)).resolve().is_relative_to(root.resolve())


def describe(error: BaseException) -> str:
    """The error as the reason in a run's end.json."""
    if isinstance(error, (InputError, CorruptError)):
        return str(error)
    if isinstance(error, SystemExit):
        return f"the task called sys.exit({error.code!r})"
    return f"{type(error).__name__}: {error}"


def traceback_text(error: BaseException) -> str:
    """The error's traceback as text."""
    return "".join(traceback.format_exception(error))


def epochs_done(run: Run) -> int:
    """The number of epochs in a run's metrics; 0 if they are damaged."""
    with suppress(CorruptError):
        return len(run.metrics())
    return 0


def ended_run(spec: Spec, reply: Reply) -> EndedRun:
    """Convert a worker's reply. Raises OSError if the store cannot be written."""
    if reply.errno is not None:
        raise OSError(reply.errno, reply.failure)
    return EndedRun(spec, reply.failure, reply.notes)


def give_up(spec: Spec, root: Path, failure: str) -> EndedRun:
    """End a run as failed, after its workers died too often."""
    run, details = Store(root).run(spec), None
    with suppress(OSError):
        details = (run.folder / DEVICE_LOST).read_text(encoding="utf-8", errors="replace")
        (run.folder / DEVICE_LOST).unlink()
        failure = f"{details.partition(chr(10))[0]} ({failure})"
    record_failure(run, failure, details)
    return EndedRun(spec, failure)


def record_failure(run: Run, failure: str, details: str | None = None) -> None:
    """Write the end of a run that failed after it began. The comparison stores the others: it knows their tasks."""
    if (run.folder / SETTINGS).exists() and not (run.folder / END).exists():
        run.fail(failure, traceback=details)


def set_aside(store: Store, run: Run, error: CorruptError) -> str:
    """Move a damaged run to the folder `aside`; returns a message for the user."""
    name, where = run.folder.relative_to(store.root), store.set_aside(run).relative_to(store.root)
    return f"{name} is damaged: moved to {where}, to be trained again ({error})"


def _resumed_note(store: Store, run: Run) -> str:
    """The message for a run that another version, machine or commit has begun."""
    name = run.folder.relative_to(store.root)
    return (
        f"{name} was begun by another version, machine or commit; `resumed` in its {SETTINGS} lists what continued it"
    )


@contextmanager
def _run_lock(spec: Spec, root: Path) -> Iterator[None]:
    """Lock a run: a worker of a killed comparison may still be training it, and both would write to the same folder.

    The lock is one byte of a file, at an offset that depends on the run. It ends with the process that holds it.
    """
    with (root / ".running").open("a+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, int(spec.key()[:12], 16))
        yield
