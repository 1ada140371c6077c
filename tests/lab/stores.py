"""Stores with invented runs, for tests of reports."""

from pathlib import Path
from typing import Any, Literal

from adamplus.lab._store.files import write_json
from adamplus.lab._store.spec import Spec
from adamplus.lab._store.store import Run, Store


def add_run(
    root: Path,
    label: str,
    values: list[float],
    *,
    task: str = "digits",
    seed: int = 1,
    phase: Literal["search", "final"] = "final",
    trial: int = 0,
    lr: float = 0.1,
    settings: dict[str, Any] | None = None,
    epochs: int | None = None,
    status: str | None = "finished",
    reason: str | None = None,
    about: dict[str, Any] | None = None,
    columns: dict[str, float] | None = None,
    task_digest: str = "digest",
    started: str = "2026-01-01T00:00:00",
    parameters: int = 1000,
    state_bytes: int | None = 4000,
) -> Run:
    """Add a run with these values of its metric (default: accuracy) on all splits, by epoch."""
    described = {"description": "Digits", "metric": "accuracy", "better": "higher", "target": None, "batch": 64}
    described |= {"rows": {"train": 100, "validation": 50, "test": 50}} | (about or {})
    metric = described["metric"]
    spec = Spec(
        task,
        task_digest,
        label.split(":")[0],
        "registered",
        label,
        {"lr": lr} if settings is None else settings,
        seed,
        epochs or len(values),
        phase,
        trial,
    )
    run = Store(root).run(spec)
    run.begin(
        {
            "spec": spec.to_json(),
            "task": described | {"epochs": spec.epochs},
            "parameters": parameters,
            "versions": {"python": "3.11", "torch": "2.13"},
            "hardware": "a machine",
            "git": {"commit": "0123456789abcdef", "dirty": False},
            "started": started,
        }
    )
    for epoch, value in enumerate(values, 1):
        line = {"epoch": epoch, "step": 10 * epoch, "seconds": 2.0 * epoch, "lr": lr, "running_loss": 3 - value}
        for split in ("train", "validation", "test"):
            line |= {f"{split}_loss": 2 - value, f"{split}_{metric}": value}
        run.append(line | (columns or {}))
    if status is not None:
        end = {"status": status, "reason": reason, "seconds": 2.0 * len(values), "steps_per_second": 5.0}
        run.finish(end | {"state_bytes": state_bytes, "peak_bytes": None})
    return run


def add_comparison(root: Path, labels: list[str], **changes: Any) -> None:
    """Write comparison.json as the command does."""
    content = {
        "command": "adamplus compare digits --seeds 3 --tune 4",
        "date": "2026-01-01",
        "tasks": ["digits"],
        "labels": labels,
        "seeds": [1, 2, 3],
        "tune": 4,
        "search": {label: {"lr": "log-uniform, 0.01 to 10"} for label in labels},
        "chosen": {},
        "engine": "local",
        "wall_seconds": 12.0,
    }
    write_json(root / "comparison.json", content | changes)


def three_contenders(root: Path) -> None:
    """Three contenders with a search: one leads, one is behind, one has lost a run."""
    own = {"norm": 0.5, "eta": 0.1, "norm_sum": 3.0, "test_accuracy_hat": 0.5}
    for seed, shift in ((1, -0.01), (2, 0.0), (3, 0.01)):
        add_run(root, "adam-plus", [0.5 + shift, 0.9 + shift], seed=seed, columns=own)
        add_run(root, "sgd", [0.4 + shift, 0.6 + shift], seed=seed, state_bytes=0)
        if seed > 1:
            add_run(root, "adam", [0.45 + shift, 0.7 + shift], seed=seed, state_bytes=8000)
    add_run(root, "adam", [0.4], seed=1, epochs=2, status="diverged", reason="loss is nan in epoch 2")
    for label in ("adam-plus", "adam", "sgd"):
        for trial, (lr, value) in enumerate([(0.01, 0.5), (0.1, 0.88), (1.0, 0.9)]):
            add_run(root, label, [0.1, value], phase="search", seed=0, trial=trial, lr=lr)
        add_run(root, label, [0.1], phase="search", seed=0, trial=3, lr=10.0, epochs=2, status="diverged")
    add_comparison(root, ["adam-plus", "adam", "sgd"])
