"""How much weight decay Adam⁺ and SpectralPlus take, beside AdamW and SGD: the MLP of `default_tasks.py`, three seeds.

`PYTHONPATH=src python benchmarks/decay.py` writes results/defaults/decay.json and tables of README.md. Decoupled decay
is compared at the same part of w per step, lr·weight_decay, and coupled decay at the same weight_decay. Accuracy
is that on validation data after the last epoch (at w, if there are two points). ‖w‖ is relative to the same run without
decay. With `--only spectral-plus`, an optimizer is measured alone, and the other numbers stay.
"""

import argparse
import json
import math
import platform
import statistics
from datetime import date
from typing import Any

import default_tasks
import torch
from defaults import RESULTS, write_tables

from adamplus.lab._run.learner import Learner
from adamplus.lab._store.spec import Spec
from adamplus.optim import _settings

SEEDS = (1, 2, 3)
DECOUPLED = (0.0, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Parts of w per step."""
COUPLED = (0.0, 1e-4, 5e-4, 1e-3, 1e-2, 1e-1)
"""Values of weight_decay."""
RATES = {"adamw": 1e-3, "msgd": 0.1, "adam-plus": 1.0, "spectral-plus": 0.02}
METHODS: dict[str, tuple[str, dict[str, Any], tuple[float, ...]]] = {
    "adamw": ("decoupled", {}, DECOUPLED),
    "adam-plus": ("decoupled", {"decoupled_weight_decay": True}, DECOUPLED),
    "spectral-plus": ("decoupled", {}, DECOUPLED),
    "msgd": ("coupled", {}, COUPLED),
    "adam-plus, coupled": ("coupled", {}, COUPLED),
}
"""The kind of decay, further settings and the amounts of decay that are measured."""


def train(optimizer: str, settings: dict[str, Any], seed: int) -> tuple[float, float]:
    """Accuracy and ‖w‖ at the end of a run."""
    task = default_tasks.find("mlp")
    spec = Spec("mlp", "", optimizer, "", optimizer, {"lr": RATES[optimizer], **settings}, seed, task.epochs)
    learner = Learner(task, spec)
    learner.prepare()
    line: dict[str, float] = {}
    for epoch in range(task.epochs):
        line = learner.epoch(epoch, [])
    if hasattr(learner.optimizer, "eval"):
        learner.optimizer.eval()  # pyright: ignore[reportAttributeAccessIssue]
    norm = torch.nn.utils.get_total_norm([p.detach() for p in learner.model.parameters()])
    return line["validation_accuracy"], float(norm)


def measure(optimizer: str, settings: dict[str, Any]) -> list[tuple[float, float]]:
    """The runs of all seeds."""
    return [train(optimizer, settings, seed) for seed in SEEDS]


def cell(found: dict[str, Any], optimizer: str, decay: float) -> str:
    """Mean accuracy, and the mean of ‖w‖ relative to the runs without decay."""
    runs, without = found[f"{optimizer} {decay:g}"], found[f"{optimizer} 0"]
    norm = statistics.mean(norm / start for (_, norm), (_, start) in zip(runs, without, strict=True))
    return f"{statistics.mean(accuracy for accuracy, _ in runs):.3f} ({norm:.2f})"


def table(found: dict[str, Any], first: str, names: dict[str, str], decays: tuple[float, ...]) -> str:
    """A table in Markdown, a row for each amount of decay."""
    lines = [[first, *names.values()], ["---"] * (1 + len(names))]
    lines += [[f"{decay:g}", *(cell(found, name, decay) for name in names)] for decay in decays]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables(content: dict[str, Any]) -> str:
    """Both tables, from what is stored in decay.json."""
    heading = {
        "adamw": "AdamW, lr=0.001",
        "adam-plus": "Adam⁺, lr=1, decoupled",
        "spectral-plus": "SpectralPlus, lr=0.02",
    }
    first = table(content["decoupled"], "lr·weight_decay", heading, DECOUPLED)
    heading = {"msgd": "SGD, lr=0.1, momentum=0.9", "adam-plus": "Adam⁺, lr=1"}
    return f"{first}\n\n{table(content['coupled'], 'weight_decay', heading, COUPLED)}\n"


def main() -> None:
    """Measure, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=METHODS, help="the optimizer to measure [default: all]")
    only = parser.parse_args().only
    _settings.LARGEST_DECAY = math.inf  # more than users may have, to show what happens
    certificate = {"torch": torch.__version__, "machine": platform.machine(), "date": str(date.today())}
    content: dict[str, Any] = json.loads((RESULTS / "decay.json").read_text()) if only else certificate
    if only:
        content.setdefault("measured alone", {})[only] = certificate
    content["rates"] = RATES
    for method in [only] if only else METHODS:
        kind, settings, decays = METHODS[method]
        optimizer = method.partition(",")[0]
        for decay in decays:
            weight_decay = decay / RATES[optimizer] if kind == "decoupled" else decay
            runs = measure(optimizer, {"weight_decay": weight_decay, **settings})
            content.setdefault(kind, {})[f"{optimizer} {decay:g}"] = runs
            print(method, decay, runs, flush=True)
    (RESULTS / "decay.json").write_text(json.dumps(content, indent=1) + "\n")
    write_tables("decay.json", tables(content))


if __name__ == "__main__":
    main()
