"""Provenance: the commit of the code."""

from pathlib import Path

import pytest

from adamplus.lab._store.provenance import git_state


def test_reading_the_commit_takes_no_lock_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    git = tmp_path / "git"
    git.write_text('#!/bin/sh\necho "$@" >> "$0.calls"; [ "$2" = status ] || echo 0123\n')
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state() == {"commit": "0123", "dirty": False}
    calls = (tmp_path / "git.calls").read_text().splitlines()
    assert len(calls) == 2
    assert all(call.startswith("--no-optional-locks ") for call in calls)


def test_the_environment_names_the_commit_of_code_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state() == {"commit": None, "dirty": None}
    monkeypatch.setenv("ADAMPLUS_COMMIT", "0123")
    assert git_state() == {"commit": "0123", "dirty": None}
