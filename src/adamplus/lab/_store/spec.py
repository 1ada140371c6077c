"""A run's specification: everything that decides its numbers, and so its name."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Spec:
    """One run. Two runs with equal specifications have equal numbers, on one machine."""

    task: str
    """A registered name, or the path of a file."""
    task_digest: str
    """Of the file that the task is in: an edited task is another one."""
    optimizer: str
    """A registered name, or the path of a file."""
    optimizer_digest: str
    label: str
    """What tables call it: the optimizer as it was asked for, `adam-plus` or `adam-plus:beta=0.5`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the optimizer is built with."""
    seed: int = 0
    epochs: int = 1
    phase: Literal["search", "final"] = "final"
    trial: int = 0
    """Number of the settings within the search; 0 in the final phase."""
    trials: int = 0
    """Settings that the search has, whose number decides which they are; 0 in the final phase."""
    device: str = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    processes: int = 1
    """That train together, under DDP: each has its own BatchNorm statistics and random numbers."""
    first_batch: int = 0
    """T₀: rows that a first step of its own sees, as the theorems ask; 0 for none."""
    probe: bool = False
    """Whether the errors of z and g are measured after each epoch."""

    def key(self) -> str:
        """A digest of all of it."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def folder(self) -> Path:
        """Where in a store the run is: a path of plain names, whatever the task is called."""
        run = f"trial{self.trial:02}-seed{self.seed}" if self.phase == "search" else f"seed{self.seed}"
        return Path(plain(self.task), plain(self.optimizer), f"{self.phase}-{run}-{self.key()[:12]}")

    def to_json(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold."""
        return {key: value for key, value in asdict(self).items() if key != "trials" or value}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Spec":
        """What `to_json` gave, and JSON has made lists in."""
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in content["settings"].items()}
        return cls(**{**content, "settings": settings})


def plain(name: str) -> str:
    """A name as one part of a path: letters, digits, dots and dashes, and none that leads elsewhere."""
    stem = Path(name).stem if name.endswith(".py") else name
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-.")[:60] or "unnamed"
