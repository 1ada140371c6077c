"""Where numbers come from: versions, hardware and the state of the code."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from adamplus import __version__

from ..device import hardware

COMMIT = "ADAMPLUS_COMMIT"


def certificate(device: torch.device) -> dict[str, Any]:
    """What a run's settings.json says of its surroundings."""
    return {
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "adamplus": __version__},
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "git": git_state(),
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def git_state() -> dict[str, Any]:
    """Commit of the code, and whether it was changed since.

    Where the code has travelled without its repository, what ADAMPLUS_COMMIT says; else unknown.
    """

    def asked(*words: str) -> str | None:
        try:
            # Without locks: a run that is killed in here would leave one, and the user's next commit would be refused.
            done = subprocess.run(
                ["git", "--no-optional-locks", *words],
                cwd=Path(__file__).parent,
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    commit, changes = asked("rev-parse", "HEAD"), asked("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit or os.environ.get(COMMIT), "dirty": None if changes is None else bool(changes)}
