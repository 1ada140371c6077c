"""A queue of experiments that keeps a GPU full, for a machine that is lent for minutes.

    PYTHONPATH=src python benchmarks/campaign.py run --data DATA --out OUT --minutes 25 --archive OUT/archives
    PYTHONPATH=src python benchmarks/campaign.py merge ARCHIVE... --into results
    PYTHONPATH=src python benchmarks/campaign.py status --out OUT

`run` works through campaign.toml in order, a few runs at a time under NVIDIA's MPS, and stops in time: every run then
has a checkpoint, and the same command goes on from there. The entries run in OUT, which looks like the repository to
them: it has a copy of `results`, and links to the folders of code. docs/reproduce.md has the whole procedure.
"""

import argparse
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import typer
from run_archives import ENTRIES, digest_of, has_ended, merge, pack

from adamplus.cli import app
from adamplus.lab._compare import split_list
from adamplus.lab._store import COMPARISON, read_json, write_json
from adamplus.lab.errors import InputError
from adamplus.lab.reproduce import ReproduceRequest

TREE = Path(__file__).parents[1]
LINKED = ("benchmarks", "tests", "pyproject.toml")
"""What entries need of the repository beside `results`; the package itself is found by PYTHONPATH."""
CONTROL = "nvidia-cuda-mps-control"
LOOK_EVERY = 0.5
LONGEST_END = 150.0
"""Seconds that entries get after the interrupt; on a GPU their workers end within 120. Then they are killed."""
COPIED = "copied.json"
"""Digests of the stored results in OUT that were copied from the tree, by name."""
TAIL = 5
"""The number of lines that are printed of the output of a failed entry."""


@dataclass(frozen=True)
class Entry:
    """A command of the queue."""

    name: str
    command: str
    alone: bool = False
    """Whether nothing else may run beside it, because its times are results."""
    after: tuple[str, ...] = ()
    """Entries that must be complete before, because it uses their runs."""

    @cached_property
    def stores(self) -> list[Path]:
        """Folders of the comparisons that it writes; empty if it is no comparison."""
        program, *words = shlex.split(self.command)
        if program != "adamplus" or words[:1] not in (["compare"], ["reproduce"]):
            return []
        verb, *words = words
        command: Any = typer.main.get_command(app)
        given = command.commands[verb].make_context(verb, words).params
        if verb == "compare":
            return [given["out"]]
        lists = {"optimizers": split_list(given["optimizers"]), "reading": split_list(given["reading"])}
        request = ReproduceRequest(**{**given, **lists, "experiments": given["experiments"] or ()})
        request.check()
        requests = [request]
        if request.choose_after is not None:
            requests.insert(0, replace(request, choose_after=None, grid=True, epochs=request.choose_after, seeds=1))
        return [one.out / one.folder / name for name, _ in request.comparisons() for one in requests]

    @property
    def has_workers(self) -> bool:
        """Whether the command takes a number of workers that it does not state."""
        return bool(self.stores) and "--workers" not in shlex.split(self.command)

    def words(self, workers: int) -> list[str]:
        """The command's words for this machine."""
        words = shlex.split(self.command)
        words += ["--workers", str(workers)] if self.has_workers else []
        own = {"adamplus": [sys.executable, "-m", "adamplus.cli"], "python": [sys.executable]}
        return [part for word in words for part in own.get(word, [word])]


def read_entries(file: Path) -> list[Entry]:
    """The entries of a file. Raises InputError if two have the same name, or one comes before another that it needs."""
    entries: list[Entry] = []
    for line in tomllib.loads(file.read_text(encoding="utf-8"))["entry"]:
        entry = Entry(**{**line, "after": tuple(line.get("after", ()))})
        earlier = {one.name for one in entries}
        if entry.name in earlier:
            raise InputError(f"{file.name} has two entries called {entry.name!r}")
        if missing := set(entry.after) - earlier:
            raise InputError(f"{file.name}: {entry.name!r} comes before {', '.join(sorted(missing))}, which it needs")
        entries.append(entry)
    return entries


@dataclass
class Job:
    """An entry that runs."""

    entry: Entry
    workers: int
    out: Path
    process: "subprocess.Popen[bytes]"
    began: float = field(default_factory=time.time)
    interrupted: bool = False

    def interrupt(self) -> None:
        """Let it stop when its runs have saved what they have. SIGKILL would break MPS for all of its clients."""
        self.interrupted = True
        self.process.send_signal(signal.SIGINT)

    def comparisons(self) -> list[tuple[Path, dict[str, Any]]]:
        """The comparisons that it has written so far, by folder."""
        found = []
        for store in self.entry.stores:
            path = self.out / store / COMPARISON
            with suppress(OSError, ValueError):
                if path.stat().st_mtime >= self.began:
                    found.append((path.parent, read_json(path)))
        return found

    def counts(self) -> tuple[int, int]:
        """The numbers of runs that have ended, and of those that it wants as far as it knows."""
        runs = [store / run for store, content in self.comparisons() for run in content["runs"]]
        return sum(map(has_ended, runs)), len(runs)

    def busy_workers(self) -> int:
        """The number of its workers that have a run, or will get one."""
        comparisons = self.comparisons()
        searches = any(content["tune"] and not content["chosen"] for _, content in comparisons)
        if not self.entry.stores or searches or len(comparisons) < len(self.entry.stores):
            return self.workers
        ended, wanted = self.counts()
        return min(self.workers, wanted - ended)


class Campaign:
    """The entries that are to run, those that run, and the record of all."""

    def __init__(
        self,
        entries: Sequence[Entry],
        out: Path,
        workers: int,
        environment: Mapping[str, str],
        only: Sequence[str] = (),
    ) -> None:
        self.entries, self.out, self.workers, self.environment = entries, out, workers, environment
        self.record = read_record(out)
        chosen = [one for one in entries if not only or one.name in only]
        self.waiting = [one for one in chosen if not is_complete(one, self.record)]
        self.active: list[Job] = []
        self.failed: list[str] = []
        self.stopping = False

    def run(self, seconds: float) -> None:
        """Run entries until all have ended, or the time is over."""
        until = time.monotonic() + seconds
        try:
            while not self.stopping and time.monotonic() < until:
                self._collect()
                self._start_more()
                if not self.active:
                    break
                time.sleep(min(LOOK_EVERY, max(0.0, until - time.monotonic())))
        finally:
            self._end_all()
            self._collect()

    def stop(self, *_: object) -> None:
        """Stop as at the end of the time."""
        self.stopping = True

    def missing(self, entry: Entry) -> list[str]:
        """The names of the entries that it needs, and that are not complete."""
        return [one.name for one in self.entries if one.name in entry.after and not is_complete(one, self.record)]

    def _end_all(self) -> None:
        """Interrupt all that runs, and kill what has not ended in time. Its workers notice, and end, too."""
        until = time.monotonic() + LONGEST_END
        for job in self.active:
            job.interrupt()
        for job in self.active:
            with suppress(subprocess.TimeoutExpired):
                job.process.wait(max(0.0, until - time.monotonic()))
        for job in self.active:
            if job.process.poll() is None:
                print(f"{job.entry.name}: killed, because it did not end within {LONGEST_END:.0f} s", flush=True)
                os.killpg(job.process.pid, signal.SIGKILL)
                job.process.wait()

    def _start_more(self) -> None:
        """Start the next entries, as long as workers are free."""
        for entry in list(self.waiting):
            free_workers = self.workers - sum(job.busy_workers() for job in self.active)
            if free_workers < 1 or any(job.entry.alone for job in self.active) or (entry.alone and self.active):
                return
            folders = {store for job in self.active for store in job.entry.stores}
            if folders.isdisjoint(entry.stores) and not self.missing(entry):
                self._start(entry, free_workers if entry.has_workers and not entry.alone else 1)

    def _start(self, entry: Entry, workers: int) -> None:
        self.waiting.remove(entry)
        with _log(self.out, entry).open("ab") as log:
            process = subprocess.Popen(
                entry.words(workers),
                cwd=self.out,
                env={**os.environ, **self.environment, "PYTHONPATH": os.pathsep.join([str(TREE / "src"), *sys.path])},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # else Ctrl-C would reach it beside the signal of this process
            )
        self.active.append(Job(entry, workers, self.out, process))
        print(f"{time.strftime('%H:%M:%S')} {entry.name}: started, {workers} at a time", flush=True)

    def _collect(self) -> None:
        """Record the entries that have ended."""
        for job in [job for job in self.active if job.process.poll() is not None]:
            self.active.remove(job)
            status, name = job.process.returncode, job.entry.name
            finished, wanted = job.counts() if job.entry.stores else (int(status == 0), 1)
            result = "complete" if status == 0 else "interrupted" if job.interrupted else f"failed ({status})"
            if result.startswith("failed"):
                self.failed.append(name)
            before = self.record.get(name, {})
            seconds = time.time() - job.began
            seconds += before.get("seconds", 0.0) if before.get("command") == job.entry.command else 0.0
            self.record[name] = {
                "command": job.entry.command,
                "complete": status == 0,
                "result": result,
                "finished": finished,
                "wanted": wanted,
                "seconds": round(seconds, 1),
                "ended": round(time.time(), 1),
            }
            write_json(self.out / "results" / ENTRIES, self.record)
            print(f"{time.strftime('%H:%M:%S')} {name}: {result}, {finished} of {wanted} runs", flush=True)


def _log(out: Path, entry: Entry) -> Path:
    return out / "logs" / f"{entry.name}.log"


def read_record(out: Path) -> dict[str, Any]:
    """What is known of the entries, by name. Raises InputError if the file is damaged."""
    path = out / "results" / ENTRIES
    try:
        return read_json(path) if path.exists() else {}
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}. Restore or remove it") from error


def is_complete(entry: Entry, record: Mapping[str, Any]) -> bool:
    """Whether an entry has been completed with the same command."""
    own = record.get(entry.name, {})
    return bool(own.get("complete")) and own["command"] == entry.command


def prepare(out: Path) -> None:
    """Make the folder in which entries run. Stored results are copied, so that they are not run again.

    Results that have changed here since they were copied are kept.
    """
    (out / "logs").mkdir(parents=True, exist_ok=True)
    for name in LINKED:
        if not (out / name).is_symlink():
            (out / name).symlink_to(TREE / name)
    copied = read_copied(out)
    for path in (TREE / "results").rglob("*"):
        if not path.is_file():
            continue
        name, content = path.relative_to(TREE / "results").as_posix(), path.read_bytes()
        target = out / "results" / name
        before = target.read_bytes() if target.exists() else None
        if before is None or copied.get(name) == digest_of(before):
            if before != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
            copied[name] = digest_of(content)
        elif before == content:
            copied[name] = digest_of(content)
    write_json(out / COPIED, copied)


def read_copied(out: Path) -> dict[str, str]:
    """The digests of what `prepare` has copied; none if the file is missing or damaged."""
    with suppress(OSError, ValueError):
        return read_json(out / COPIED)
    return {}


@contextmanager
def shared_gpu(out: Path) -> Iterator[dict[str, str]]:
    """Let processes share the GPU by MPS, if this machine has both. Yields the environment for these processes."""
    control = shutil.which(CONTROL)
    if control is None or not torch.cuda.is_available():
        yield {}
        return
    # The path of a socket must be short. A daemon that a killed campaign has left is ended first.
    folder = Path(tempfile.gettempdir(), f"mps-{hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:8]}")
    places = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
    for place in places.values():
        Path(place).mkdir(parents=True, exist_ok=True)

    def call(*words: str, text: str = "") -> int:
        environment = {**os.environ, **places}
        return subprocess.run([control, *words], input=text, env=environment, text=True, check=False).returncode

    call(text="quit\n")
    if call("-d") != 0:
        raise InputError(f"{CONTROL} cannot be started: look into {folder / 'log'}")
    try:
        yield places
    finally:
        call(text="quit\n")


def table(entries: Sequence[Entry], record: Mapping[str, Any]) -> str:
    """A table of all entries."""
    lines = [("entry", "runs", "seconds", "result")]
    for entry in entries:
        own = record.get(entry.name, {})
        if own and own["command"] != entry.command:
            own = {"result": "not started; its command has changed"}
        runs = f"{own['finished']}/{own['wanted']}" if "wanted" in own else "–"
        lines.append((entry.name, runs, f"{own.get('seconds', 0):.0f}", str(own.get("result", "not started"))))
    widths = [max(len(line[i]) for line in lines) for i in range(3)]
    return "\n".join(f"{a:{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}" for a, b, c, d in lines)


def run(options: argparse.Namespace) -> int:
    """Work through the entries, write archives, and print the table. Returns the exit status."""
    entries = read_entries(options.entries)
    if unknown := set(options.only) - {entry.name for entry in entries}:
        raise InputError(f"there is no entry {', '.join(sorted(unknown))} in {options.entries.name}")
    chosen = [entry for entry in entries if not options.only or entry.name in options.only]
    out = options.out.resolve()
    prepare(out)
    data = {} if options.data is None else {"ADAMPLUS_DATA": str(options.data.resolve())}
    with shared_gpu(out) as environment:
        campaign = Campaign(entries, out, options.workers, {**data, **environment}, options.only)
        for number in (signal.SIGINT, signal.SIGTERM):  # handled here, they are not ignored in the entries' processes
            signal.signal(number, campaign.stop)
        campaign.run(60 * options.minutes)
    for name in campaign.failed:
        lines = (out / "logs" / f"{name}.log").read_text(errors="replace").splitlines()
        print(f"\n{name} failed:", *lines[-TAIL:], sep="\n  ")
    for entry in campaign.waiting:
        if missing := campaign.missing(entry):
            print(f"{entry.name} was not started: it needs {', '.join(missing)}")
    left_out = False
    if options.archive is not None:
        try:
            for path in pack(out / "results", TREE / "results", options.archive, read_copied(out)):
                print(f"{path.name}: {path.stat().st_size:,} bytes")
        except InputError as error:
            left_out = True
            print(error)
    print(table(chosen, campaign.record))
    return 1 if campaign.failed or left_out else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="verb", required=True)
    running = commands.add_parser("run", help="work through the entries")
    merging = commands.add_parser("merge", help="merge archives into a folder of results")
    status = commands.add_parser("status", help="print what is missing")
    running.add_argument("--data", type=Path, help="folder of all data sets [default: $ADAMPLUS_DATA]")
    running.add_argument("--minutes", type=float, required=True, help="minutes after which runs are interrupted")
    running.add_argument(
        "--workers",
        type=int,
        default=3 if torch.cuda.is_available() else 1,
        help="runs at a time [default: 3 on CUDA, else 1]",
    )
    running.add_argument("--only", nargs="+", default=[], metavar="ENTRY", help="some entries [default: all]")
    running.add_argument("--archive", type=Path, help="folder of the archives [default: none are written]")
    merging.add_argument("archives", type=Path, nargs="+", metavar="ARCHIVE")
    merging.add_argument("--into", type=Path, required=True, help="folder of results")
    for one in (running, status):
        one.add_argument("--out", type=Path, required=True, help="folder of runs and checkpoints")
        file = Path(__file__).with_name("campaign.toml")
        one.add_argument("--entries", type=Path, default=file, help="file of entries [default: campaign.toml]")
    options = parser.parse_args(arguments)
    try:
        if options.verb == "run":
            return run(options)
        if options.verb == "status":
            print(table(read_entries(options.entries), read_record(options.out)))
            return 0
        written, same = merge(options.archives, options.into)
        print(f"{written} files were written, {same} were there already")
    except InputError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
