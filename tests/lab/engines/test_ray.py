"""The Ray engine."""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from engine_runs import DIES_ONCE, execute, planned
from small_comparison import here, numbers, write_task

from adamplus.lab._store.store import Store
from adamplus.lab.engines import attempt, find
from adamplus.lab.engines.attempt import MAX_DEATHS
from adamplus.lab.errors import InputError


def test_ray_has_the_numbers_of_this_process_even_if_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    specs = planned(write_task(tmp_path / "plane.py", DIES_ONCE), "adam-plus", "msgd")
    ended = execute(find("ray"), specs, tmp_path / "ray")
    assert (tmp_path / "plane.py.died").exists()
    assert [one.failure for one in ended] == [None] * 4
    execute(here, specs, tmp_path / "undisturbed")
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "undisturbed")


def test_a_run_whose_ray_workers_die_is_repeated_only_if_it_made_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    exceptions = pytest.importorskip("ray.exceptions")
    from adamplus.lab.engines import ray

    def died(_: object) -> None:
        raise exceptions.WorkerCrashedError

    monkeypatch.setattr(ray.ray, "get", died)
    (spec,) = planned(write_task(tmp_path / "plane.py"), "sgd", seeds=1)
    run = Store(tmp_path).run(spec)
    run.begin({"spec": spec.to_json()})
    run.append({"epoch": 1})
    assert ray._collect(None, spec, tmp_path, before=0) is None
    ended = ray._collect(None, spec, tmp_path, before=1)
    assert ended is not None
    assert f"worker died {MAX_DEATHS} times and got no further" in str(ended.failure)


def test_a_ray_cluster_that_cannot_be_reached_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ray = pytest.importorskip("ray")

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Failed to connect to Ray cluster at nowhere:6379")

    monkeypatch.setattr(ray, "init", unreachable)
    with pytest.raises(InputError, match="nowhere:6379: check that RAY_ADDRESS is the address of a running cluster"):
        execute(find("ray"), [], tmp_path)


def test_a_start_of_ray_that_takes_too_long_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ray = pytest.importorskip("ray")

    def too_slow(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", too_slow)
    with pytest.raises(InputError, match=r"Ray did not start: The current node .* use --engine local"):
        execute(find("ray"), [], tmp_path)


def test_a_ray_worker_that_does_not_see_the_store_sends_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("ray")
    from adamplus.lab.engines import ray

    monkeypatch.chdir(tmp_path)
    write_task(tmp_path / "plane.py")
    (spec,) = planned("plane.py", "adam-plus", seeds=1)
    (tmp_path / "elsewhere").mkdir()
    sources = {"plane.py": ray._sources("plane.py")}
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "elsewhere")
        answer, files = ray._train(spec, tmp_path / "ray", "no such token", tmp_path, sources)
    assert answer == attempt.Reply()
    with Store(tmp_path / "ray").lock():
        ray._write_files(files, spec, Store(tmp_path / "ray").run(spec))
    Store(tmp_path / "ray").run(spec).check(spec)
    execute(here, [spec], tmp_path / "here")
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "here")


MODULES = {
    "own_flat.py": "from own_deep.inner.leaf import LEAF\nFLAT = LEAF + 1\n",
    "own_deep/__init__.py": "from .twin import TWIN\n",
    "own_deep/twin.py": "TWIN = 2\n",
    "own_deep/inner/__init__.py": "",
    "own_deep/inner/leaf.py": "from ..twin import TWIN\nfrom . import bud\nLEAF = TWIN + bud.BUD\n",
    "own_deep/inner/bud.py": "BUD = 5\n",
    "own_space/part.py": "PART = 7\n",  # a folder without __init__
    "own_late.py": "LATE = 11\n",
    "own_star/__init__.py": "__all__ = ['petal']\n",
    "own_star/petal.py": "PETAL = 13\n",
    "unused.py": "raise ImportError\n",
}
IMPORTS = """import own_flat
from own_deep.inner import leaf as leaf
from own_star import *
from own_space.part import PART
assert (own_flat.FLAT, leaf.LEAF, petal.PETAL, PART) == (8, 7, 13, 7)
"""
AT_CALL_TIME = "from own_late import LATE; assert LATE == 11"
OPTIMIZER = """from adamplus.lab.optimizers import Contender, LogUniform
from own_tools.steps import Steps

contender = Contender("mine", Steps, search={"lr": LogUniform(0.01, 0.1)})
"""


def write_tree(folder: Path) -> tuple[str, str]:
    """A task and an optimizer in two folders, with what they import from these."""
    for name, content in {f"tasks/{name}": content for name, content in MODULES.items()}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    task = Path(write_task(folder / "tasks" / "plane.py", AT_CALL_TIME))
    task.write_text(task.read_text().replace("import torch\n", f"import torch\n{IMPORTS}", 1))
    (folder / "steps" / "own_tools").mkdir(parents=True)
    (folder / "steps" / "own_tools" / "steps.py").write_text(
        "import torch\n\nclass Steps(torch.optim.SGD):\n    pass\n"
    )
    (folder / "steps" / "mine.py").write_text(OPTIMIZER)
    return str(task), str(folder / "steps" / "mine.py")


@pytest.fixture
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the modules of a test's folder, in sys.path and in sys.modules."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {
            "own_flat",
            "own_deep",
            "own_space",
            "own_late",
            "own_star",
            "own_tools",
            "plane",
        }:
            del sys.modules[name]


@pytest.mark.usefixtures("_own_modules")
def test_a_worker_that_does_not_see_everything_has_the_numbers_of_one_that_does(tmp_path: Path):
    pytest.importorskip("ray")
    from adamplus.lab.engines import ray

    driver, folder = tmp_path / "driver", tmp_path / "cwd"
    task, optimizer = write_tree(driver)
    specs = planned(task, optimizer, "adam-plus", seeds=1)
    execute(here, specs, tmp_path / "here")
    sources = {name: ray._sources(name) for name in (task, optimizer)}
    assert not any("unused" in path for path in sources[task])
    driver.rename(tmp_path / "gone")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as worker:  # one process for all runs, as Ray has
        for unseen in ("store", "files", "folder"):
            store = tmp_path / f"without the {unseen}"
            store.mkdir()
            (store / ray.TOKEN).write_text("another" if unseen == "store" else "token")
            folder.rmdir() if unseen == "folder" else folder.mkdir(exist_ok=True)
            for spec in specs:
                sent = {name: sources[name] for name in (spec.task, spec.optimizer) if name in sources}
                reply, files = worker.submit(ray._train, spec, store, "token", folder, sent).result()
                assert reply == attempt.Reply()
                ray._write_files(files, spec, Store(store).run(spec))
                Store(store).run(spec).check(spec)
            assert numbers(store) == numbers(tmp_path / "here")


def test_a_worker_sees_a_file_only_as_it_was_sent(tmp_path: Path):
    pytest.importorskip("ray")
    from adamplus.lab.engines import ray

    task = write_task(tmp_path / "plane.py")
    (tmp_path / ray.TOKEN).write_text("token")
    sources = {task: ray._sources(task)}
    assert ray._sees(tmp_path, "token", tmp_path, sources)
    assert not ray._sees(tmp_path, "another", tmp_path, sources)
    Path(task).write_text("another")
    assert not ray._sees(tmp_path, "token", tmp_path, sources)


@pytest.mark.slow
@pytest.mark.usefixtures("_own_modules")
def test_real_ray_workers_that_see_neither_store_nor_files_have_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The runs wait for the only CPU while the folder of the files is renamed and the store's token removed."""
    library = pytest.importorskip("ray")
    from adamplus.lab.engines import ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    driver = tmp_path / "driver"
    task, optimizer = write_tree(driver)
    specs = planned(task, optimizer, "adam-plus")
    execute(here, specs, tmp_path / "here")
    library.init("local", num_cpus=1, log_to_driver=False, include_dashboard=False)
    try:
        release = tmp_path / "release"

        def wait() -> None:
            while not release.exists():
                time.sleep(0.05)

        waiting = library.remote(wait).remote()
        submit, submitted = ray._submit, []

        def hide_afterwards(*arguments: Any) -> Any:
            submitted.append(submit(*arguments))
            if len(submitted) == len(specs):
                driver.rename(tmp_path / "gone")
                (tmp_path / "ray" / ray.TOKEN).unlink()
                release.touch()
            return submitted[-1]

        monkeypatch.setattr(ray, "_submit", hide_afterwards)
        ended = execute(find("ray"), specs, tmp_path / "ray")
        library.get(waiting)
    finally:
        library.shutdown()
    assert [one.failure for one in ended] == [None] * len(specs)
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "here")
