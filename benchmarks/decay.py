"""How much weight decay Adam⁺ takes, beside AdamW and SGD: the MLP of `default_tasks.py`, three seeds.

`PYTHONPATH=src python benchmarks/decay.py` writes results/defaults/decay.json and tables of README.md. Decoupled decay
is compared at the same part of w per step, lr·weight_decay, and coupled decay at the same weight_decay. Accuracy
is that on validation data after the last epoch (of Adam⁺, at w). ‖w‖ is relative to the same run without decay.
"""

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
RATES = {"adamw": 1e-3, "msgd": 0.1, "adam-plus": 1.0}


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
    heading = {"adamw": "AdamW, lr=0.001", "adam-plus": "Adam⁺, lr=1, decoupled"}
    first = table(content["decoupled"], "lr·weight_decay", heading, DECOUPLED)
    heading = {"msgd": "SGD, lr=0.1, momentum=0.9", "adam-plus": "Adam⁺, lr=1"}
    return f"{first}\n\n{table(content['coupled'], 'weight_decay', heading, COUPLED)}\n"


def main() -> None:
    """Measure, and write what was measured."""
    _settings.LARGEST_DECAY = math.inf  # more than users may have, to show what happens
    decoupled: dict[str, Any] = {}
    coupled: dict[str, Any] = {}
    for part in DECOUPLED:
        decay = {name: {"weight_decay": part / RATES[name]} for name in ("adamw", "adam-plus")}
        decay["adam-plus"]["decoupled_weight_decay"] = True
        decoupled |= {f"{name} {part:g}": measure(name, settings) for name, settings in decay.items()}
        print(part, decoupled[f"adam-plus {part:g}"], flush=True)
    for decay in COUPLED:
        coupled |= {f"{name} {decay:g}": measure(name, {"weight_decay": decay}) for name in ("msgd", "adam-plus")}
    certificate = {"torch": torch.__version__, "machine": platform.machine(), "date": str(date.today())}
    content = {**certificate, "rates": RATES, "decoupled": decoupled, "coupled": coupled}
    (RESULTS / "decay.json").write_text(json.dumps(content, indent=1) + "\n")
    write_tables("decay.json", tables(content))


if __name__ == "__main__":
    main()
