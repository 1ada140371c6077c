"""The specification of a run: everything that decides its numbers, and therefore the name of its folder."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Spec:
    """One run. On one machine, two runs with equal specifications have equal numbers."""

    task: str
    """A registered name, or the path of a file."""
    task_digest: str
    """Digest of the task's file: an edited task is another task."""
    optimizer: str
    """A registered name, or the path of a file."""
    optimizer_digest: str
    label: str
    """The optimizer's name in tables, as on the command line: `adam-plus` or `adam-plus:beta=0.5`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the optimizer."""
    seed: int = 0
    epochs: int = 1
    phase: Literal["search", "final"] = "final"
    trial: int = 0
    """Number of this trial within the search; 0 in the final phase."""
    trials: int = 0
    """Number of trials of the search, on which each trial's settings depend; 0 in the final phase."""
    device: str = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    processes: int = 1
    """Processes that train the run together under DDP, each with its own BatchNorm statistics and random numbers."""
    first_batch: int = 0
    """T₀: rows of a large first batch, which gets a step of its own, as the theorems require; 0: none."""
    probe: bool = False
    """Whether to measure the errors of z and g after each epoch."""

    def key(self) -> str:
        """Digest of the whole specification."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def folder(self) -> Path:
        """The run's folder below the store's `runs`, made of safe names whatever the task is called."""
        run = f"trial{self.trial:02}-seed{self.seed}" if self.phase == "search" else f"seed{self.seed}"
        return Path(plain(self.task), plain(self.optimizer), f"{self.phase}-{run}-{self.key()[:12]}")

    def to_json(self) -> dict[str, Any]:
        """The specification as a dictionary for JSON."""
        return {key: value for key, value in asdict(self).items() if key != "trials" or value}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Spec":
        """The specification from such a dictionary, in which JSON has turned tuples into lists."""
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in content["settings"].items()}
        return cls(**{**content, "settings": settings})


def plain(name: str) -> str:
    """A name as one component of a path: letters, digits, underscores and dashes."""
    stem = Path(name).stem if name.endswith(".py") else name
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-.")[:60] or "unnamed"
