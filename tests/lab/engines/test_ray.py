"""The Ray engine."""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

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


def test_a_ray_worker_that_does_not_see_the_store_gets_the_imported_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("ray")
    from adamplus.lab.engines import ray

    driver = tmp_path / "driver"
    (driver / "own_planes").mkdir(parents=True)
    (driver / "own_planes" / "__init__.py").write_text("from .slope import SLOPE\n")
    (driver / "own_planes" / "slope.py").write_text("SLOPE = 2.0\n")
    task = write_task(driver / "plane.py", "import own_planes; assert own_planes.SLOPE == 2.0")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])  # to which the task's folder is added
        specs = planned(task, "sgd", seeds=2)
    sources = {task: ray._sources(task)}
    driver.rename(tmp_path / "gone")  # so that the worker finds the module only among what it was sent
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as worker:  # one process for both runs, as Ray has
        trained = [
            worker.submit(ray._train, spec, tmp_path / "ray", "no such token", tmp_path, sources).result()
            for spec in specs
        ]
    assert [reply for reply, _ in trained] == [attempt.Reply()] * 2
    assert all("end.json" in files for _, files in trained)
