"""The run store: what is on the disk after a kill, and how damaged files are reported."""

import os
from pathlib import Path

import pytest
from blob_runs import spec
from hypothesis import given, settings
from hypothesis import strategies as st

from adamplus.lab._store.spec import plain
from adamplus.lab._store.store import CorruptError, Run
from adamplus.lab.engines.training import train


def test_metrics_are_synced_before_files_that_rely_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every new file is also synced before it replaces the old one."""
    events: list[str] = []
    sync, rename = os.fsync, Path.replace

    def synced(number: int) -> None:
        events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{number}')).name}")
        sync(number)

    def renamed(self: Path, target: Path) -> Path:
        events.append(f"rename {self.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    run = Run(tmp_path)
    run.append({"epoch": 1})
    run.save({"epoch": 1})
    saved = ["sync metrics.jsonl", "sync checkpoint.pt.new", "rename checkpoint.pt.new"]
    assert events == saved
    run.finish({"status": "finished"})
    assert events[3:] == ["sync metrics.jsonl", "sync end.json.new", "rename end.json.new"]


def test_lines_after_the_checkpoint_may_be_damaged(tmp_path: Path):
    """As after a loss of power: they are synced only with the next checkpoint."""
    run = Run(tmp_path)
    for epoch in (1, 2, 3, 4):
        run.append({"epoch": epoch})
        if epoch == 2:
            run.save({"epoch": 2})
    path = run.folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'{"epoch": 3}', bytes(12)))
    run.cut()
    assert run.metrics() == [{"epoch": 1}, {"epoch": 2}]


def test_missing_metrics_before_a_checkpoint_are_reported(tmp_path: Path):
    run = Run(tmp_path)
    run.append({"epoch": 1})
    run.save({"epoch": 2})
    with pytest.raises(CorruptError, match=r"has 1 epochs, but checkpoint.pt is of epoch 2"):
        run.cut()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("settings.json", "{"),
        ("settings.json", "[]"),
        ("settings.json", '{"spec": {"task": "another"}}'),
        ("metrics.jsonl", "nonsense\n"),
        ("metrics.jsonl", '{"epoch": 2}\n'),
        ("metrics.jsonl", ""),
        ("end.json", '{"status": "perhaps"}'),
        ("end.json", "\x00"),
    ],
)
def test_damaged_files_are_reported(name: str, content: str, tmp_path: Path):
    run = Run(tmp_path / "run")
    train(spec(), run)
    run.check(spec())
    (run.folder / name).write_text(content)
    with pytest.raises(CorruptError, match=name):
        run.check(spec())


@given(st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_no_task_name_leads_out_of_the_store(name: str):
    part = plain(name)
    assert part not in ("", ".", "..")
    assert len(Path(part).parts) == 1
    folder = spec(task=name).folder()
    assert not folder.is_absolute()
    assert ".." not in folder.parts
    assert len(folder.parts) == 3
