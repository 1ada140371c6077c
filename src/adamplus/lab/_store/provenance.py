"""Provenance of a run: versions, hardware and the commit of the code."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from adamplus import __version__

from ..device import hardware

COMMIT = "ADAMPLUS_COMMIT"
"""The environment variable that names the commit if the code was copied without its repository."""


def certificate(device: torch.device, packages: Sequence[str] = ("torch", "adamplus")) -> dict[str, Any]:
    """What is stored beside measured numbers: versions, hardware, threads, the state of the code, and the time."""
    found = {"python": platform.python_version()} | {name: _version(name) for name in packages}
    return {
        "versions": {name: version for name, version in found.items() if version is not None},
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "git": git_state(),
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def _version(package: str) -> str | None:
    if package == "adamplus":  # it may be a source tree that is not installed
        return __version__
    if package == "torch":  # metadata may leave out the build
        return torch.__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def git_state() -> dict[str, Any]:
    """The commit of the code, and whether the working tree differs from it; None if unknown.

    Without a repository, the commit is the value of ADAMPLUS_COMMIT.
    """

    def git(*arguments: str) -> str | None:
        try:
            # Without locks: a run that is killed here would leave its lock, and the user's next commit would fail.
            done = subprocess.run(
                ["git", "--no-optional-locks", *arguments],
                cwd=Path(__file__).parent,
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    commit, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit or os.environ.get(COMMIT), "dirty": None if changes is None else bool(changes)}
