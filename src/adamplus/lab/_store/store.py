"""The run store: one folder per run, which stays readable if the run is killed at any moment.

    DIR/comparison.json                        what is compared, and how
    DIR/runs/TASK/OPTIMIZER/RUN/settings.json  the specification and provenance; written first
                               /metrics.jsonl  one line per epoch: pandas.read_json(path, lines=True)
                               /checkpoint.pt  the state from which an interrupted run continues: `Run.save`
                               /end.json       how the run ended: finished, diverged or failed, and why; written last
                               /events.out.…   the same metrics for TensorBoard
                               /lost.txt       why a worker lost its device, until the run ends
    DIR/logs/worker-1.log                      what tasks print
    DIR/aside                                  runs with damaged files, which are trained again

All JSON files and lines and the checkpoint have checksums (checksums.py).

engines/training.py calls `Run.begin` first, `append` and sometimes `save` after each epoch, and `finish` last.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from .checksums import ChecksumWriter, check_trailer, parse_json, read_json, signed
from .files import replace_file, replacement, write_json
from .spec import Spec

COMPARISON = "comparison.json"
SETTINGS, METRICS, CHECKPOINT, END = "settings.json", "metrics.jsonl", "checkpoint.pt", "end.json"
DEVICE_LOST = "lost.txt"
"""Why the latest attempt lost its device: the error on the first line, then the traceback."""
PROVENANCE = ("versions", "hardware", "git")
"""The fields of settings.json that identify what trains a run."""


class CorruptError(Exception):
    """A file of a run is damaged or missing; the message says which, and how."""


class Run:
    """The folder of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, settings: dict[str, Any]) -> None:
        """Write settings.json before the first step, unless an earlier attempt has written it.

        If that attempt was by another version, machine or commit, the present ones and the epoch in which they take
        over are added to `resumed` there.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / SETTINGS).exists():
            write_json(self.folder / SETTINGS, settings)
            return
        earlier = self.settings()
        trainers = [earlier, *earlier.get("resumed", [])]
        if any(trainers[-1].get(name) != settings.get(name) for name in PROVENANCE):
            present = {name: settings.get(name) for name in (*PROVENANCE, "started")}
            trained = (self.checkpoint() or {"epoch": 0})["epoch"]
            resumed = [*trainers[1:], {"epoch": trained + 1, **present}]
            write_json(self.folder / SETTINGS, earlier | {"resumed": resumed})

    def append(self, line: dict[str, Any]) -> None:
        """Append the metrics of an epoch. They are synced to the disk by the next `save` or `finish`."""
        with (self.folder / METRICS).open("ab") as file:
            file.write(_metrics_line(line))

    def save(self, checkpoint: dict[str, Any]) -> None:
        """Write checkpoint.pt, replacing the one before."""
        self._sync_metrics()
        with replacement(self.folder / CHECKPOINT) as file:
            writer: Any = ChecksumWriter(file)
            torch.save(checkpoint, writer)
            writer.finish()

    def checkpoint(self) -> dict[str, Any] | None:
        """The checkpoint from which the run continues; None if it starts from the beginning."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        try:
            check_trailer(path)
            found = torch.load(path, map_location="cpu", weights_only=True)
        except OSError:  # a failing disk, on which the file may still be whole
            raise
        except Exception as error:  # pickle and zip raise many types for half a file
            raise CorruptError(f"{CHECKPOINT} cannot be read: {error}") from error
        if not (isinstance(found, dict) and isinstance(found.get("epoch"), int)):
            raise CorruptError(f"{CHECKPOINT} is not the checkpoint of a run")
        return found

    def cut(self) -> None:
        """Drop the metrics of epochs after the checkpoint, which are trained again."""
        checkpoint = self.checkpoint()
        epochs = 0 if checkpoint is None else checkpoint["epoch"]
        lines = self.metrics(epochs)  # after a loss of power, later lines may be damaged
        if len(lines) < epochs:
            raise CorruptError(f"{METRICS} has {len(lines)} epochs, but {CHECKPOINT} is of epoch {epochs}")
        replace_file(self.folder / METRICS, b"".join(map(_metrics_line, lines)))

    def finish(self, end: dict[str, Any]) -> None:
        """Write end.json, and remove the checkpoint unless the run failed: the next attempt continues from it.

        The folder may not exist yet, if the run ended before it began.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sync_metrics()
        write_json(self.folder / END, end)
        if end["status"] != "failed":
            for name in (CHECKPOINT, DEVICE_LOST):
                (self.folder / name).unlink(missing_ok=True)

    def fail(self, reason: str, seconds: float = 0.0, traceback: str | None = None) -> None:
        """Write end.json for a run that raised an error."""
        unknown = dict.fromkeys(("steps_per_second", "state_bytes", "peak_bytes"))
        self.finish({"status": "failed", "reason": reason, "seconds": seconds, "traceback": traceback, **unknown})

    def settings(self) -> dict[str, Any]:
        """The content of settings.json."""
        return self._read(SETTINGS)

    def end(self) -> dict[str, Any] | None:
        """The content of end.json; None if the run has not ended."""
        return self._read(END) if (self.folder / END).exists() else None

    def metrics(self, epochs: int | None = None) -> list[dict[str, Any]]:
        """Metrics by epoch, of the first `epochs` or of all. A last line that a kill has cut off is ignored."""
        path = self.folder / METRICS
        if not path.exists():
            return []
        *whole, _rest = path.read_bytes().split(b"\n")
        try:
            lines = [parse_json(line) for line in whole[:epochs]]
        except ValueError as error:
            raise CorruptError(f"{METRICS} cannot be read: {error}") from error
        numbers = [line.get("epoch") for line in lines]
        if numbers != list(range(1, len(lines) + 1)):
            raise CorruptError(f"{METRICS} has the epochs {numbers}")
        return lines

    def check(self, spec: Spec | None = None) -> None:
        """Raise CorruptError unless the run has this specification, and its results are whole if it has any.

        Metrics of a run that goes on from its checkpoint are checked by `cut`, which drops those that are damaged.
        """
        found = self.settings().get("spec")
        if not isinstance(found, dict) or (spec is not None and found != json.loads(json.dumps(spec.to_json()))):
            raise CorruptError(f"{SETTINGS} belongs to another run")
        if (end := self.end()) is None:
            return
        if end.get("status") not in ("finished", "diverged", "failed"):
            raise CorruptError(f"{END} has no known status")
        if end["status"] == "failed":
            return
        lines = self.metrics()
        if lines and not (self.folder / METRICS).read_bytes().endswith(b"\n"):
            raise CorruptError(f"the last line of {METRICS} is cut off")
        if end["status"] == "finished" and len(lines) != found.get("epochs"):
            raise CorruptError(f"{METRICS} has {len(lines)} epochs of {found.get('epochs')}, but {END} says finished")

    def result(self, spec: Spec) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The content of end.json, empty if the run has not ended, and the metrics. Checked as by `check`."""
        self.check(spec)
        return self.end() or {}, self.metrics()

    def _sync_metrics(self) -> None:
        """Sync metrics.jsonl to the disk, before a file is written that relies on it."""
        if (path := self.folder / METRICS).exists():
            with path.open("rb") as file:
                os.fsync(file.fileno())

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return read_json(self.folder / name)
        except (OSError, ValueError) as error:
            raise CorruptError(f"{name} cannot be read: {error}") from error


class Store:
    """All runs below one folder, such as those of a comparison."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, spec: Spec) -> Run:
        """The run with this specification, whether or not its folder exists."""
        return Run(self.root / "runs" / spec.folder())

    def runs(self) -> list[Run]:
        """All runs whose folders exist, sorted by name."""
        return [Run(path.parent) for path in sorted((self.root / "runs").glob(f"*/*/*/{SETTINGS}"))]

    def set_aside(self, run: Run) -> Path:
        """Move the folder of a damaged run to DIR/aside, and return its new path."""
        aside = self.root / "aside"
        aside.mkdir(exist_ok=True)
        name = "-".join(run.folder.relative_to(self.root / "runs").parts)
        number = next(i for i in range(1, 1 << 30) if not (aside / f"{name}.{i}").exists())
        return run.folder.rename(aside / f"{name}.{number}")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder exclusively: two comparisons would overwrite each other's runs."""
        try:
            (self.root / "runs").mkdir(parents=True, exist_ok=True)
            file = (self.root / ".lock").open("a+")
        except OSError as error:
            raise InputError(
                f"{self.root} cannot be written to ({error.strerror}): pass another folder as --out"
            ) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                file.seek(0)
                raise InputError(
                    f"another comparison is writing to {self.root} (process {file.read().strip() or 'unknown'}): "
                    "wait for it, or pass another folder as --out"
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield


def _metrics_line(line: dict[str, Any]) -> bytes:
    """A line of metrics.jsonl."""
    return json.dumps(signed(line), ensure_ascii=False).encode() + b"\n"
