"""The Ray engine: the cluster that RAY_ADDRESS names (`auto`: this machine's), or one that is started here.

A run is a Ray task: Ray decides where and when it is trained, and repeats it if its worker dies. Workers that see the
store and the user's files train in the store and resume from its checkpoints. Other workers get the user's files, with
the Python files that these import from their folders, train in a temporary folder, and send its content back.
"""

import atexit
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from .._store import CHECKPOINT, END, SETTINGS, Run, Spec, Store, imported, replace_file, write_json
from ..errors import InputError
from .attempt import MAX_DEATHS, EndedRun, Reply, attempt, ended_run, epochs_done, give_up
from .engine import Execute

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError:
    raise InputError(
        "--engine ray needs Ray, which is not installed: in your clone, run pip install -e '.[ray]'"
    ) from None

TOKEN = ".token"
"""A file of the store by which workers find out whether they see it."""


@contextmanager
def start(root: Path, workers: int | None = None) -> Iterator[Execute]:
    """Connect to the cluster, unless this process is connected to one already."""
    root, token = root.resolve(), uuid.uuid4().hex

    def execute(specs: Sequence[Spec], done: Callable[[EndedRun], None]) -> None:
        waiting, running = list(reversed(specs)), {}
        while waiting or running:
            while waiting and len(running) < (workers or len(specs)):
                spec = waiting.pop()
                running[_submit(spec, root, token)] = spec, epochs_done(Store(root).run(spec))
            (ready, *_), _ = ray.wait(list(running), num_returns=1)
            spec, before = running.pop(ready)
            if (one := _collect(ready, spec, root, before)) is not None:
                done(one)
            else:
                waiting.append(spec)

    replace_file(root / TOKEN, token.encode())
    ours = not ray.is_initialized()
    if ours:
        # Without an address, Ray waits minutes for a cluster of this machine that was killed.
        address = os.environ.get("RAY_ADDRESS") or "local"
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except ConnectionError as error:
            raise InputError(
                f"{error}: check that RAY_ADDRESS is the address of a running cluster. If it requires a token, set its "
                "RAY_AUTH_MODE and RAY_AUTH_TOKEN here"
            ) from None
        except Exception as error:  # Ray has no class of its own for a start that took too long
            raise InputError(
                f"Ray did not start: {error} If this machine is busy, give the same command again later, or use "
                "--engine local"
            ) from error
    try:
        yield execute
    finally:
        if ours:
            ray.shutdown()


def _submit(spec: Spec, root: Path, token: str) -> Any:
    sources = {name: _sources(name) for name in (spec.task, spec.optimizer) if name.endswith(".py")}
    remote: Any = ray.remote(_train)
    options = {"num_cpus": 1, "num_gpus": int(spec.device != "cpu"), "max_retries": MAX_DEATHS - 1}
    return remote.options(**options).remote(spec, root, token, Path.cwd(), sources)


def _sources(name: str) -> dict[str, bytes]:
    """The content of a user's file and of those that it imports, by absolute path without the root; itself first."""
    path = Path(name).resolve()
    return {str(file.relative_to(file.anchor)): file.read_bytes() for file in (path, *imported(path).values())}


def _train(
    spec: Spec, root: Path, token: str, folder: Path, sources: dict[str, dict[str, bytes]]
) -> tuple[Reply, dict[str, bytes]]:
    """Train a run in a Ray worker; returns the reply, and the run's files unless they are in the store."""
    if _sees(root, token, folder, sources):
        os.chdir(folder)  # paths are relative to where the comparison was started
        return attempt(spec, root), {}
    moved = replace(spec, task=_write_sources(spec.task, sources), optimizer=_write_sources(spec.optimizer, sources))
    with tempfile.TemporaryDirectory() as own:
        reply, run = attempt(moved, Path(own)), Store(Path(own)).run(moved)
        files = run.folder.iterdir() if run.folder.exists() else ()
        return reply, {file.name: file.read_bytes() for file in files}


def _sees(root: Path, token: str, folder: Path, sources: dict[str, dict[str, bytes]]) -> bool:
    """Whether this worker sees the store, the folder of the comparison, and the user's files as they were sent."""
    contents = [content for files in sources.values() for content in files.items()]
    try:
        return (
            (root / TOKEN).read_text() == token
            and folder.is_dir()
            and all(Path(folder.anchor, path).read_bytes() == content for path, content in contents)
        )
    except OSError:
        return False


def _write_sources(name: str, sources: dict[str, dict[str, bytes]]) -> str:
    """Write a user's file and what it imports on this machine, and return its path here; other names stay."""
    if name not in sources:
        return name
    paths = [_source_folder() / path for path in sources[name]]
    for path, content in zip(paths, sources[name].values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(paths[0])


@cache
def _source_folder() -> Path:
    """A folder of this worker for the user's files; one for all runs, because Python imports a module only once."""
    folder = tempfile.mkdtemp(prefix="adamplus-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _collect(ready: Any, spec: Spec, root: Path, before: int) -> EndedRun | None:
    """How a run ended; None if its workers died, but trained further than the epoch in which they started."""
    try:
        reply, files = ray.get(ready)
    except RayTaskError as error:  # not from the user's code; adamplus may be missing there
        return give_up(spec, root, f"{type(error.cause).__name__} in the worker: {error.cause}")
    except RayError as error:
        if epochs_done(Store(root).run(spec)) > before:
            return None
        cause = str(error).strip().partition("\n")[0]
        return give_up(spec, root, f"worker died {MAX_DEATHS} times and got no further ({cause})")
    _write_files(files, spec, Store(root).run(spec))
    return ended_run(spec, reply)


def _write_files(files: dict[str, bytes], spec: Spec, run: Run) -> None:
    """Write the files that a worker sent, end.json last."""
    if not files:
        return
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / CHECKPOINT).unlink(missing_ok=True)  # of an earlier attempt
    for name in sorted(files, key=lambda name: name == END):
        replace_file(run.folder / name, files[name])
        if name == SETTINGS:  # the worker had the user's files at other paths
            write_json(run.folder / SETTINGS, run.settings() | {"spec": spec.to_json()})
