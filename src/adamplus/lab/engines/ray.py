"""Runs on a Ray cluster: the one that RAY_ADDRESS names (`auto`: this machine's), or one that is started here.

A run is a Ray task; Ray decides where and when, and begins it again where its worker is lost. Workers that see the
store's folder train in it and resume from its checkpoints. Others train in a folder of their own and send back what
is in it.
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
    raise InputError("--engine ray needs Ray, which is not installed: pip install 'adamplus[ray]'") from None

TOKEN = ".token"
"""A file of the store by which workers know that they see it."""


@contextmanager
def start(root: Path, workers: int | None = None) -> Iterator[Execute]:
    """A connection to the cluster; where this process has one already, that one."""
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
        # Left to itself, Ray waits minutes for a cluster of this machine that was killed.
        address = os.environ.get("RAY_ADDRESS") or "local"
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except ConnectionError as error:
            raise InputError(
                f"{error}: see that RAY_ADDRESS is that of a cluster which is up, and where it asks for a token, "
                "that this process has the same RAY_AUTH_MODE and RAY_AUTH_TOKEN"
            ) from None
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
    """In a worker: the reply, and the files of the run where the store is not to be seen."""
    try:
        visible = (root / TOKEN).read_text() == token
    except OSError:
        visible = False
    if visible:
        os.chdir(folder)  # names of files are relative to where the comparison was started
        return attempt(spec, root), {}
    moved = replace(spec, task=_written(spec.task, sources), optimizer=_written(spec.optimizer, sources))
    with tempfile.TemporaryDirectory() as own:
        reply, run = attempt(moved, Path(own)), Store(Path(own)).run(moved)
        files = run.folder.iterdir() if run.folder.exists() else ()
        return reply, {file.name: file.read_bytes() for file in files}


def _written(name: str, sources: dict[str, dict[str, bytes]]) -> str:
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
    """What became of a run; None where its workers died, but have got further than the epoch where they began."""
    try:
        reply, files = ray.get(ready)
    except RayTaskError as error:  # not the task's, which `attempt` replies for: adamplus is not there, say
        return give_up(spec, root, f"{type(error.cause).__name__} in the worker: {error.cause}")
    except RayError as error:
        if epochs_done(Store(root).run(spec)) > before:
            return None
        cause = str(error).strip().partition("\n")[0]
        return give_up(spec, root, f"worker died {MAX_DEATHS} times and got no further ({cause})")
    _store(files, spec, Store(root).run(spec))
    return ended_run(spec, reply)


def _store(files: dict[str, bytes], spec: Spec, run: Run) -> None:
    """Write what a worker sent; the end last, as a run does."""
    if not files:
        return
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / CHECKPOINT).unlink(missing_ok=True)  # of an attempt that came before
    for name in sorted(files, key=lambda name: name == END):
        replace_file(run.folder / name, files[name])
        if name == SETTINGS:  # the worker had the user's files elsewhere
            write_json(run.folder / SETTINGS, run.settings() | {"spec": spec.to_json()})
