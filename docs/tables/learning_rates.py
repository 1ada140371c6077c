"""Writes the table of learning rates into docs/tuning.md: python docs/tables/learning_rates.py (some minutes)."""

import platform
import runpy
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import nn

from adamplus import AdamPlus

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tuning.md"
BEGIN, END = "<!-- docs/tables/learning_rates.py -->\n", "<!-- end of learning rates -->\n"
SEEDS = range(5)
EPOCHS = 20
RATES = (0.1, 0.3, 1.0, 3.0, 5.0, 8.0)
BASELINES = {"Adam": (torch.optim.Adam, {}), "SGD, momentum 0.9": (torch.optim.SGD, {"momentum": 0.9})}
BASELINE_RATES = {"Adam": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), "SGD, momentum 0.9": (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)}


def adam_plus(lr: float, beta: float) -> Callable[[nn.Module], torch.optim.Optimizer]:
    """What builds Adam⁺ for a model that it follows."""

    def build(model: nn.Module) -> AdamPlus:
        optimizer = AdamPlus(model.parameters(), lr=lr, beta=beta)
        optimizer.follow(model)
        return optimizer

    return build


def torchs(cls: Any, lr: float, settings: dict[str, Any]) -> Callable[[nn.Module], torch.optim.Optimizer]:
    """What builds one of torch's optimizers for a model."""
    return lambda model: cls(model.parameters(), lr=lr, **settings)


def table() -> str:
    """The table, as Markdown, and where its numbers come from."""
    train = runpy.run_path(str(ROOT / "examples" / "digits.py"))["train"]

    def cells(builds: list[Callable[[nn.Module], torch.optim.Optimizer]]) -> list[str]:
        found = []
        for build in builds:
            values = 100 * torch.tensor([train(build, EPOCHS, seed) for seed in SEEDS], dtype=torch.float64)
            found.append(
                f"{values.mean():.1f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{values.std() / len(values) ** 0.5:.1f}"
            )
        return found

    betas = (0.1, 0.3, 0.5, 0.9)
    rows = [(f"Adam⁺, β = {beta}", RATES, cells([adam_plus(lr, beta) for lr in RATES])) for beta in betas]
    for name, (cls, settings) in BASELINES.items():
        rates = BASELINE_RATES[name]
        rows.append((name, rates, cells([torchs(cls, lr, settings) for lr in rates])))
    lines = []
    for i, (name, rates, accuracies) in enumerate(rows):
        if i == 0 or rates != rows[i - 1][1]:
            lines += [f"\n| learning rate | {' | '.join(f'{rate:g}' for rate in rates)} |", "|---" * 7 + "|"]
        lines.append(f"| {name} | {' | '.join(accuracies)} |")
    made = f"{platform.machine()}, torch {torch.__version__}, {date.today()}"
    return "\n".join(lines).lstrip() + f"\n\n`python docs/tables/learning_rates.py`, {made}.\n"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
