"""The numbers of a benchmark and where they come from, stored as JSON."""

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from .._store import certificate
from ..errors import InputError

PACKAGES = ("adamplus", "torch", "triton", "pytorch-triton", "schedulefree")
"""Packages whose versions a report stores."""


@dataclass
class StepCost:
    """Time and memory of one optimizer's step on one list of tensors; None: not measured."""

    optimizer: str
    eager_ms: float
    eager_quartiles_ms: list[float]
    captured_ms: float | None
    captured_quartiles_ms: list[float] | None
    not_captured: str | None
    """Why there is no captured step, if there is none."""
    state_bytes: int
    extra_bytes: int
    """Peak of the steps above parameters, gradients and state."""
    moved_bytes: int | None
    """Bytes that a step must read and write."""
    gb_per_s: float | None
    """moved_bytes over the faster of both times."""
    copy_share: float | None
    """gb_per_s over a copy's."""
    over_floor: float
    """The faster of both times over the floor's."""
    eager_over_adam: float | None = None
    captured_over_adam: float | None = None


@dataclass
class ModelCosts:
    """The costs of all optimizers on one list of tensors."""

    model: str
    tensors: int
    parameters: int
    floor_ms: float
    """Time to move what an Adam⁺ step must move, at the speed of a copy."""
    rows: list[StepCost]
    absent: dict[str, str]
    """Optimizers that did not take part, and why."""


@dataclass
class BenchReport:
    """One run of `adamplus bench`."""

    kind: str
    """"step" or "scale"."""
    certificate: dict[str, str]
    """Command, hardware, versions and date."""
    copy_gb_per_s: float
    models: list[ModelCosts] = field(default_factory=list)


def flat_certificate(command: str, device: torch.device) -> dict[str, str]:
    """Provenance of the numbers as a report stores it: command, hardware, date, versions and threads."""
    born = certificate(device, PACKAGES)
    return {
        "command": command,
        "hardware": born["hardware"],
        "date": born["started"][:10],
        **born["versions"],
        "threads": str(born["threads"]),
    }


def check_writable(path: Path | None) -> None:
    """Raise InputError if a file cannot be written: before minutes of measuring rather than after."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; create it first")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"{path} cannot be written to: pass another file")


def save(report: BenchReport, path: Path) -> None:
    """Write the report as JSON."""
    path.write_text(json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path) -> BenchReport:
    """Read a report that `save` wrote."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        models = [
            ModelCosts(**{**model, "rows": [StepCost(**row) for row in model["rows"]]}) for model in data["models"]
        ]
        report = BenchReport(**{**data, "models": models})
        _check_content(report)
        return report
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{path} is no report of `adamplus bench`: {error!r}; write one with --json") from None


def _check_content(report: BenchReport) -> None:
    """Raise KeyError if the certificate lacks an entry, and TypeError if a number is of another type."""
    for name in ("command", "hardware", "date", "torch"):
        report.certificate[name]
    for model in report.models:
        math.isfinite(model.tensors + model.parameters + model.floor_ms)
        for row in model.rows:
            found = [value for name, value in asdict(row).items() if name not in ("optimizer", "not_captured")]
            for value in found:
                for number in value if isinstance(value, list) else [value]:
                    math.isfinite(0 if number is None else number)
