"""The run store: one folder a run, which a kill at any moment leaves readable.

    DIR/comparison.json                        what is compared, and how
    DIR/runs/TASK/OPTIMIZER/RUN/settings.json  the specification, versions, hardware, git state; written first
                               /metrics.jsonl  a line an epoch: pandas.read_json(path, lines=True)
                               /checkpoint.pt  where the run goes on after a kill
                               /end.json       how it ended: finished, diverged or failed, and why; written last
                               /events.out.…   the same metrics for TensorBoard
    DIR/logs/worker-1.log                      what tasks print

Files are replaced as a whole or appended to. What cannot be read is set aside, under DIR/aside, and done again.
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
from .files import replace_file, replacement, write_json
from .spec import Spec

COMPARISON = "comparison.json"
SETTINGS, METRICS, CHECKPOINT, END = "settings.json", "metrics.jsonl", "checkpoint.pt", "end.json"


DEVICE_LOST = "lost.txt"
"""Of an attempt whose device was lost: the reason on the first line, and where."""
PROVENANCE = ("versions", "hardware", "git")
"""What of a run's settings says who trains it."""


class CorruptError(Exception):
    """A run's folder does not hold what it should; the message says what is wrong."""


class Run:
    """A run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, settings: dict[str, Any]) -> None:
        """Write what is known before the first step, unless an interrupted start has done so.

        Where that was by another version, machine or commit, `resumed` says by which the run goes on, from which epoch.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / SETTINGS).exists():
            write_json(self.folder / SETTINGS, settings)
            return
        begun = self.settings()
        trainers = [begun, *begun.get("resumed", [])]
        if any(trainers[-1].get(name) != settings.get(name) for name in PROVENANCE):
            now = {name: settings.get(name) for name in (*PROVENANCE, "started")}
            trained = (self.checkpoint() or {"epoch": 0})["epoch"]
            resumed = [*trainers[1:], {"epoch": trained + 1, **now}]
            write_json(self.folder / SETTINGS, begun | {"resumed": resumed})

    def append(self, line: dict[str, Any]) -> None:
        """Add an epoch's metrics; on the disk they are with the next checkpoint, and at the end."""
        with (self.folder / METRICS).open("ab") as file:
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=True).encode() + b"\n")

    def save(self, checkpoint: dict[str, Any]) -> None:
        """Replace the checkpoint."""
        self._sync_metrics()
        with replacement(self.folder / CHECKPOINT) as file:
            torch.save(checkpoint, file)

    def checkpoint(self) -> dict[str, Any] | None:
        """Where the run goes on; None where it starts anew."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        try:
            found = torch.load(path, map_location="cpu", weights_only=True)
        except OSError:  # the disk's, which may have it whole
            raise
        except Exception as error:  # whatever pickle and zip make of half a file
            raise CorruptError(f"{CHECKPOINT} cannot be read: {error}") from error
        if not (isinstance(found, dict) and isinstance(found.get("epoch"), int)):
            raise CorruptError(f"{CHECKPOINT} is no checkpoint of a run")
        return found

    def cut(self) -> None:
        """Drop metrics that are later than the checkpoint: these epochs are trained again."""
        checkpoint = self.checkpoint()
        epochs = 0 if checkpoint is None else checkpoint["epoch"]
        lines = self.metrics(epochs)  # later ones may have come to the disk in part, where power was lost
        if len(lines) < epochs:
            raise CorruptError(f"{METRICS} has {len(lines)} epochs, and {CHECKPOINT} is of epoch {epochs}")
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        replace_file(self.folder / METRICS, text.encode())

    def finish(self, end: dict[str, Any]) -> None:
        """Write how the run ended, which it may have before it could begin.

        The checkpoint of a failed run stays: the next attempt goes on from there.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sync_metrics()
        write_json(self.folder / END, end)
        if end["status"] != "failed":
            for name in (CHECKPOINT, DEVICE_LOST):
                (self.folder / name).unlink(missing_ok=True)

    def fail(self, reason: str, seconds: float = 0.0, traceback: str | None = None) -> None:
        """The end of a run that raised."""
        unknown = dict.fromkeys(("steps_per_second", "state_bytes", "peak_bytes"))
        self.finish({"status": "failed", "reason": reason, "seconds": seconds, "traceback": traceback, **unknown})

    def settings(self) -> dict[str, Any]:
        """What `begin` wrote."""
        return self._read(SETTINGS)

    def end(self) -> dict[str, Any] | None:
        """How it ended, if it did."""
        return self._read(END) if (self.folder / END).exists() else None

    def metrics(self, epochs: int | None = None) -> list[dict[str, Any]]:
        """A dictionary an epoch, of so many or all; a last line that a kill has cut off is no epoch."""
        path = self.folder / METRICS
        if not path.exists():
            return []
        *whole, _rest = path.read_bytes().split(b"\n")
        try:
            lines = [json.loads(line) for line in whole[:epochs]]
            numbers = [line["epoch"] for line in lines]
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptError(f"{METRICS} cannot be read: {error!r}") from error
        if numbers != list(range(1, len(lines) + 1)):
            raise CorruptError(f"{METRICS} has the epochs {numbers}")
        return lines

    def check(self, spec: Spec | None = None) -> None:
        """Raise CorruptError unless everything in the folder can be read, and is of that specification."""
        found = self.settings().get("spec")
        if not isinstance(found, dict) or (spec is not None and found != json.loads(json.dumps(spec.to_json()))):
            raise CorruptError(f"{SETTINGS} is of another run")
        end, lines = self.end(), self.metrics()
        if end is not None and (end.get("status") not in ("finished", "diverged", "failed")):
            raise CorruptError(f"{END} has no status")
        if end is not None and end["status"] == "finished" and len(lines) != found.get("epochs"):
            raise CorruptError(f"{METRICS} has {len(lines)} epochs of {found.get('epochs')}, and {END} says finished")

    def _sync_metrics(self) -> None:
        """Have the disk hold what has been appended, before it holds a file that relies on it."""
        if (path := self.folder / METRICS).exists():
            with path.open("rb") as file:
                os.fsync(file.fileno())

    def _read(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CorruptError(f"{name} cannot be read: {error}") from error
        if not isinstance(content, dict):
            raise CorruptError(f"{name} holds a {type(content).__name__}")
        return content


class Store:
    """All runs of a comparison."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, spec: Spec) -> Run:
        """The folder of a run, whether it is there or not."""
        return Run(self.root / "runs" / spec.folder())

    def runs(self) -> list[Run]:
        """Every run that is there, in the order of their names."""
        return [Run(path.parent) for path in sorted((self.root / "runs").glob(f"*/*/*/{SETTINGS}"))]

    def set_aside(self, run: Run) -> Path:
        """Move a run that cannot be read out of the way."""
        aside = self.root / "aside"
        aside.mkdir(exist_ok=True)
        name = "-".join(run.folder.relative_to(self.root / "runs").parts)
        number = next(i for i in range(1, 1 << 30) if not (aside / f"{name}.{i}").exists())
        return run.folder.rename(aside / f"{name}.{number}")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Have the folder alone: two comparisons would write over each other's runs."""
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
