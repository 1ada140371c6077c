"""Progress of runs: a live display on a terminal, and plain lines elsewhere."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from .._present import duration, say
from .._store import CHECKPOINT, END, METRICS, SETTINGS, CorruptError, Run, Spec, Store
from ..engines import EndedRun

REFRESHES = 2
"""Refreshes per second. Each reads the files of the runs in progress: workers report in no other way."""
LINE_EVERY = 60.0
"""The most seconds without a line of output if it is not a terminal."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C during runs, with the training that is lost: what is newer than the last checkpoint of each run."""

    def __init__(self, lost: list[str]) -> None:
        super().__init__()
        self.lost = lost


class Watch:
    """Context that displays the progress of runs."""

    def __init__(
        self, console: Console, store: Store, title: str, specs: Sequence[Spec], metrics: Mapping[str, str]
    ) -> None:
        self.console, self.store, self.metrics = console, store, metrics
        self.pending = {spec.key(): spec for spec in specs}
        self.ended: list[EndedRun] = []
        self.began = self.printed = time.time()
        self.over = threading.Event()
        bar = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"))
        self.bar = Progress(*bar, TimeElapsedColumn(), TextColumn("·"), TimeRemainingColumn(), TextColumn("left"))
        self.overall = self.bar.add_task(title, total=len(specs))
        self.live = Live(
            get_renderable=self._display, console=console, refresh_per_second=REFRESHES, transient=True, screen=False
        )

    def __enter__(self) -> "Watch":
        if self.console.is_terminal:
            self.live.start()
        else:
            threading.Thread(target=self._print_lines, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        if self.console.is_terminal:
            self.live.stop()

    def done(self, ended: EndedRun) -> None:
        """Count a run that has ended, and print a line if it failed or there is no terminal."""
        self.ended.append(ended)
        self.pending.pop(ended.spec.key(), None)
        self.bar.advance(self.overall)
        for note in ended.notes:
            say(self.console, note)
        run = self.store.run(ended.spec)
        status, text = _ending(run, ended, self.metrics[ended.spec.task])
        if not self.console.is_terminal or status == "failed":
            number = f"[{len(self.ended)}/{len(self.ended) + len(self.pending)}]"
            self.printed = time.time()
            say(self.console, f"{number} {ended.spec.task} · {ended.spec.label} · {name(ended.spec)} · {text}")

    def unsaved(self) -> list[str]:
        """The training that a stop at this moment loses, for each run in progress."""
        now, lost = time.time(), []
        for spec in self.pending.values():
            run = self.store.run(spec)
            if self._seen(spec) is None or (run.folder / END).exists():
                continue
            saved = _modified(run.folder / CHECKPOINT)
            since = max(self.began, saved or _modified(run.folder / SETTINGS) or self.began)
            why = "which has no checkpoint yet" if saved is None else "since its checkpoint"
            lost.append(f"{duration(now - since, rough=True)} of {_whose(spec)}, {why}")
        return lost

    def _print_lines(self) -> None:
        """Print a line whenever there was none for a while, until the runs are over."""
        while not self.over.wait(max(0.05, self.printed + LINE_EVERY - time.time())):
            if time.time() >= self.printed + LINE_EVERY:
                self.printed = time.time()
                say(self.console, self.status())

    def status(self) -> str:
        """One line about the progress: how many runs have ended, which are in progress, and how long it takes."""
        ended, total = len(self.ended), len(self.ended) + len(self.pending)
        rows = [(spec, lines) for spec in list(self.pending.values()) if (lines := self._seen(spec)) is not None]
        running = [f"{_whose(spec)} (epoch {len(lines)} of {spec.epochs})" for spec, lines in rows]
        spent = time.time() - self.began
        parts = [f"[{ended}/{total}] after {duration(spent, rough=True)}"]
        parts += [f"about {duration(spent / ended * (total - ended), rough=True)} left"] if ended else []
        return "; ".join([", ".join(parts), *running])

    def _display(self) -> Group:
        rows = [(spec, lines) for spec in list(self.pending.values()) if (lines := self._seen(spec)) is not None]
        room = max(3, self.console.height - 6)
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in ("task", "optimizer", "run", "epoch", "", "left"):
            table.add_column(heading, justify="right" if heading in ("epoch", "left") else "left", no_wrap=True)
        for spec, lines in rows[:room]:
            table.add_row(*(Text(cell) for cell in _cells(spec, lines, self.metrics[spec.task])))
        more = [Text(f"and {len(rows) - room} more", style="dim")] if len(rows) > room else []
        return Group(table, *more, self.bar)

    def _seen(self, spec: Spec) -> list[dict[str, Any]] | None:
        """The epochs of a run in progress; None if no worker has touched it since the display began."""
        run = self.store.run(spec)
        for file in (METRICS, SETTINGS):
            with suppress(OSError, CorruptError):
                if (run.folder / file).stat().st_mtime >= self.began:
                    return run.metrics()
        return None


def name(spec: Spec) -> str:
    """The name of a run among those of its contender."""
    return f"trial {spec.trial}" if spec.phase == "search" else f"seed {spec.seed}"


def _whose(spec: Spec) -> str:
    """Task, contender and name of a run."""
    return f"{Path(spec.task).stem} · {spec.label} · {name(spec)}"


def _modified(path: Path) -> float | None:
    """When a file was written; None if there is none."""
    with suppress(OSError):
        return path.stat().st_mtime
    return None


def _cells(spec: Spec, lines: Sequence[Mapping[str, Any]], metric: str) -> tuple[str, ...]:
    run = (Path(spec.task).stem, spec.label, name(spec))  # a line has no room for a path
    if not lines:
        return *run, f"–/{spec.epochs}", "", ""
    last = lines[-1]
    split = "validation" if f"validation_{metric}" in last else "test"
    value, seconds = _number(last, f"{split}_{metric}"), _number(last, "seconds")
    left = "" if seconds is None else duration(seconds / len(lines) * (spec.epochs - len(lines)), rough=True)
    text = "" if value is None else f"{'test ' * (split == 'test')}{metric} {value:.4g}"
    return *run, f"{len(lines)}/{spec.epochs}", text, left


def _ending(run: Run, ended: EndedRun, metric: str) -> tuple[str, str]:
    """The status of a run that has ended, and a text for it."""
    if ended.failure is not None:
        return "failed", f"failed: {ended.failure}"
    try:
        end, lines = run.result(ended.spec)
    except CorruptError as error:
        return "failed", f"damaged: {error}"
    if end.get("status") != "finished":
        return str(end.get("status")), f"{end.get('status')}: {end.get('reason')}"
    split = "validation" if ended.spec.phase == "search" else "test"
    value, seconds = _number(lines[-1], f"{split}_{metric}"), _number(end, "seconds")
    text = "finished" if value is None else f"{split} {metric} {value:.4g}"
    return "finished", text if seconds is None else f"{text} · {duration(seconds, rough=True)}"


def _number(content: Mapping[str, Any], name: str) -> float | None:
    """A number of a stored file; None if there is none."""
    value = content.get(name)
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else None
