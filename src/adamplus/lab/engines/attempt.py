"""An attempt at a run, in whatever process an engine makes it, and what the comparison hears of it."""

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
"""How often in a row a run's worker may die and have got no further than the one before."""


DEVICE_LOST_STATUS = 70
"""The status of a process whose device was lost: to an engine, a worker that died."""


@dataclass
class Reply:
    """What a worker says of a run; how it ended is in its folder."""

    failure: str | None = None
    """Why there is no end in the folder."""
    errno: int | None = None
    """Of what the disk refused."""
    notes: list[str] = field(default_factory=list)
    """What was set aside."""


@dataclass
class EndedRun:
    """A run that needs no worker any more."""

    spec: Spec
    failure: str | None = None
    notes: list[str] = field(default_factory=list)


def attempt(spec: Spec, root: Path) -> Reply:
    """Train a run of the store in this process, from its checkpoint if it has one."""
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
    except DeviceLostError as error:  # every later run of this process would fail, too
        with suppress(OSError):
            (run.folder / DEVICE_LOST).write_text(f"{error}\n{traceback_text(error)}", encoding="utf-8")
        exit_without_device(error)
    return reply


def exit_without_device(error: DeviceLostError) -> NoReturn:
    """End this process, and say why."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(DEVICE_LOST_STATUS)


def concerns_store(error: OSError, root: Path) -> bool:
    """Whether no run can be written any more; a file that a task does not find is the task's own matter."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
        return True
    name = error.filename
    return isinstance(name, (str, bytes)) and Path(os.fsdecode(name)).resolve().is_relative_to(root.resolve())


def describe(error: BaseException) -> str:
    """What a run's end says of what was raised."""
    if isinstance(error, (InputError, CorruptError)):
        return str(error)
    if isinstance(error, SystemExit):
        return f"the task called sys.exit({error.code!r})"
    return f"{type(error).__name__}: {error}"


def traceback_text(error: BaseException) -> str:
    """Where it was raised."""
    return "".join(traceback.format_exception(error))


def epochs_done(run: Run) -> int:
    """How far a run has come."""
    with suppress(CorruptError):
        return len(run.metrics())
    return 0


def ended_run(spec: Spec, reply: Reply) -> EndedRun:
    """What the comparison is told; raises OSError where the disk refused, which concerns all runs."""
    if reply.errno is not None:
        raise OSError(reply.errno, reply.failure)
    return EndedRun(spec, reply.failure, reply.notes)


def give_up(spec: Spec, root: Path, failure: str) -> EndedRun:
    """What the comparison is told of a run that no worker answers for."""
    run, details = Store(root).run(spec), None
    with suppress(OSError):
        details = (run.folder / DEVICE_LOST).read_text(encoding="utf-8")
        (run.folder / DEVICE_LOST).unlink()
        failure = f"{details.splitlines()[0]} ({failure})"
    record_failure(run, failure, details)
    return EndedRun(spec, failure)


def record_failure(run: Run, failure: str, details: str | None = None) -> None:
    """End a run as failed, if it had begun; for one that had not, the comparison does, which knows its task."""
    if (run.folder / SETTINGS).exists() and not (run.folder / END).exists():
        run.fail(failure, traceback=details)


def set_aside(store: Store, run: Run, error: CorruptError) -> str:
    """Move a corrupt run out of the way; what people are told of it."""
    name, where = run.folder.relative_to(store.root), store.set_aside(run).relative_to(store.root)
    return f"{name} is set aside as {where} and done again: {error}"


def _resumed_note(store: Store, run: Run) -> str:
    """What people are told of a run that others have begun."""
    name = run.folder.relative_to(store.root)
    return (
        f"{name} was begun by another version, machine or commit: `resumed` in its {SETTINGS} says by which it went on"
    )


@contextmanager
def _run_lock(spec: Spec, root: Path) -> Iterator[None]:
    """Wait for a worker of a killed comparison that has not noticed yet: both would write to the same folder.

    A lock of one byte, whose place in the file is the run's own, and which ends with the process that has it.
    """
    with (root / ".running").open("a+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, int(spec.key()[:12], 16))
        yield
