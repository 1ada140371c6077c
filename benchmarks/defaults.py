"""Which lr and β of Adam⁺ have the least regret over many tasks, and does a rate in SGD's units transfer better?

`PYTHONPATH=src python benchmarks/defaults.py --task mlp digits` trains what runs.jsonl lacks, a line per run, and
writes the tables of results/defaults/README.md. Without --task, it only writes them. `--task cifar10 wikitext2 an4
--device cuda` needs a GPU. Data sets are found as by `adamplus data where` ($ADAMPLUS_DATA).

A run has the settings of one candidate for the default and no schedule but the task's own. What counts is its metric on
validation data at w, after the last epoch. The *regret* of a setting on a task is the part of the possible improvement
that it misses: 0 is the best candidate's result, 1 that of the untrained model, or a divergence. A perplexity counts by
its logarithm.
"""

import argparse
import json
import math
import platform
import statistics
import time
from collections.abc import Iterator
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import default_tasks
import torch
from torch import nn

from adamplus.lab._run.learner import Learner, divergence
from adamplus.lab._store.spec import Spec
from adamplus.theory import undisturbed

RESULTS = Path(__file__).parents[1] / "results" / "defaults"
TASKS = {"mlp": 3, "digits": 3, "bert": 1, "tones": 1, "pydoc": 1, "cifar10-subset": 1}
"""Tasks for a CPU, with their numbers of seeds."""
GPU_TASKS = {"cifar10": 35, "wikitext2": 40, "an4": 20}
"""Tasks for a GPU, with their epochs. They have one seed."""
BETAS = (0.1, 0.3, 0.5)
RATES = {
    "lr": (0.1, 0.3, 1.0, 3.0, 10.0),
    "sgd": (0.01, 0.03, 0.1, 0.3, 1.0),
}
"""Candidates: α itself, and η at the first step in SGD's units, from which α = rate √‖g_0‖ / β follows."""


class Candidate(NamedTuple):
    """Settings that are candidates for a default, or those of another optimizer for comparison."""

    optimizer: str
    unit: str
    rate: float
    beta: float | None = None

    def __str__(self) -> str:
        if self.beta is None:
            return f"{self.optimizer}, lr={self.rate:g}"
        return f"{'lr' if self.unit == 'lr' else 'SGD rate'}={self.rate:g}, β={self.beta:g}"


CANDIDATES = [
    *(Candidate("adam-plus", unit, rate, beta) for unit in RATES for beta, rate in product(BETAS, RATES[unit])),
    *(Candidate("nadam-plus", "lr", rate, 0.1) for rate in RATES["lr"]),
]
OTHERS = [Candidate("adam", "lr", 1e-3), Candidate("msgd", "lr", 0.1)]
"""Adam with torch's default and SGD with momentum 0.9 at its usual rate, for comparison."""


def first_norm(learner: Learner) -> float:
    """‖g_0‖, the norm of the first gradient after clipping."""
    size = learner.task.batch
    with undisturbed(learner.model, learner.optimizer):
        rows = torch.arange(size) if learner.task.ordered else torch.randperm(len(learner.data["train"][0]))[:size]
        learner.model.train()
        learner.task.begin(learner.model)
        learner.loss(rows.to(learner.device))[0].backward()
        learner.clip()
        norm = nn.utils.get_total_norm([p.grad for p in learner.model.parameters() if p.grad is not None])
        learner.optimizer.zero_grad()
    return float(norm)


def train(name: str, candidate: Candidate, seed: int, device: str) -> dict[str, Any]:
    """Train one run, and return its line of results."""
    begun = time.perf_counter()
    task = default_tasks.find(name)
    epochs = GPU_TASKS.get(name, task.epochs)
    settings = {"lr": candidate.rate} | ({} if candidate.beta is None else {"beta": candidate.beta})
    precision = "bfloat16" if device == "cuda" else "float32"
    spec = Spec(name, "", candidate.optimizer, "", str(candidate), settings, seed, epochs, device=device)
    learner = Learner(task, spec if precision == "float32" else Spec(**{**spec.to_json(), "precision": precision}))
    norm = first_norm(learner)
    if candidate.unit == "sgd":
        assert candidate.beta is not None
        lr = candidate.rate * norm**0.5 / candidate.beta
        learner.scheduled.initial_groups[0]["lr"] = lr
        learner.scheduled.changed.add("lr")
        learner.scheduled.set({})
    learner.prepare()
    metric = f"validation_{task.metric}"
    start = learner.evaluation.metrics(learner.optimizer)[metric]
    history: list[dict[str, float]] = []
    for epoch in range(epochs):
        history.append(learner.epoch(epoch, history))
        if divergence(history[-1], task.metric) is not None:
            break
    last = history[-1]
    return {
        "task": name,
        **candidate._asdict(),
        "seed": seed,
        "metric": task.metric,
        "better": task.better,
        "start": start,
        "value": None if divergence(last, task.metric) is not None else last[metric],
        "value_at_w_hat": last.get(f"{metric}_hat"),
        "first_norm": norm,
        "lr": learner.scheduled.initial_groups[0]["lr"],
        "epochs": epochs,
        "steps": learner.steps,
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine() + " CPU",
        "torch": torch.__version__,
        "date": str(date.today()),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def key(run: dict[str, Any]) -> tuple[Any, ...]:
    """What identifies a run."""
    return run["task"], Candidate(run["optimizer"], run["unit"], run["rate"], run["beta"]), run["seed"]


def stored() -> list[dict[str, Any]]:
    """The runs that have been made."""
    path = RESULTS / "runs.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wanted(names: list[str]) -> Iterator[tuple[str, Candidate, int]]:
    """The runs of some tasks, those of the first seed first."""
    for name in names:
        for seed in range(1, TASKS.get(name, 1) + 1):
            yield from ((name, candidate, seed) for candidate in (*CANDIDATES, *OTHERS))


def score(run: dict[str, Any], value: float | None) -> float:
    """A metric such that higher is better, and -inf for a divergence."""
    if value is None or not math.isfinite(value):
        return -math.inf
    value = math.log(value) if run["metric"] == "perplexity" else value
    return value if run["better"] == "higher" else -value


def regrets(runs: list[dict[str, Any]]) -> dict[tuple[str, Candidate], float]:
    """The regret of each candidate on each task: means over seeds."""
    found: dict[tuple[str, Candidate], float] = {}
    for name in dict.fromkeys(run["task"] for run in runs):
        own = [run for run in runs if run["task"] == name]
        start = statistics.mean(score(run, run["start"]) for run in own)
        scores: dict[Candidate, list[float]] = {}
        for run in own:
            scores.setdefault(key(run)[1], []).append(max(score(run, run["value"]), start))
        means = {candidate: statistics.mean(values) for candidate, values in scores.items()}
        best = max(mean for candidate, mean in means.items() if candidate in CANDIDATES)
        found |= {(name, candidate): (best - mean) / (best - start) for candidate, mean in means.items()}
    return found


def rows(runs: list[dict[str, Any]], candidates: list[Candidate], names: list[str]) -> list[list[str]]:
    """Rows of a table: the metric of each candidate on each task with its regret, and the mean and worst regret.

    Only the tasks for a CPU count for the last two.
    """
    found = regrets(runs)
    table: list[list[str]] = []
    for candidate in candidates:
        row, known = [str(candidate)], []
        for name in names:
            values = [run["value"] for run in runs if key(run)[:2] == (name, candidate)]
            if not values:
                row.append("–")
                continue
            if name in TASKS:
                known.append(found[name, candidate])
            finite = [value for value in values if value is not None]
            text = f"{statistics.mean(finite):.3g}" if len(finite) == len(values) else "diverged"
            row.append(f"{text} ({found[name, candidate]:.2f})")
        complete = len(known) == len(TASKS)
        row += [f"{statistics.mean(known):.3f}", f"{max(known):.2f}"] if complete else ["–", "–"]
        table.append(row)
    return table


def markdown(runs: list[dict[str, Any]]) -> str:
    """All tables, of the tasks that have runs, and the names of the others."""
    measured = {run["task"] for run in runs}
    names = [name for name in (*TASKS, *GPU_TASKS) if name in measured]
    missing = [name for name in (*TASKS, *GPU_TASKS) if name not in measured]
    kinds = [
        ("Adam⁺ by lr (α)", [c for c in CANDIDATES if c.optimizer == "adam-plus" and c.unit == "lr"]),
        ("Adam⁺ by η of the first step, in SGD's units", [c for c in CANDIDATES if c.unit == "sgd"]),
        ("Nadam⁺ by lr (α)", [c for c in CANDIDATES if c.optimizer == "nadam-plus"]),
        ("Other optimizers with usual settings", OTHERS),
    ]
    parts: list[str] = []
    for title, candidates in kinds:
        heading = [title, *names, "mean regret", "worst regret"]
        lines = [heading, ["---"] * len(heading), *rows(runs, candidates, names)]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    if missing:
        parts.append(f"Not measured yet: {', '.join(missing)}.")
    return "\n\n".join(parts) + "\n"


def write_tables(source: str, tables: str) -> None:
    """Put tables of a file of results into the page."""
    page = RESULTS / "README.md"
    before, begin, rest = page.read_text().partition(f"<!-- {source} -->\n")
    _, end, after = rest.partition("<!-- end -->\n")
    page.write_text(before + begin + tables + end + after)


def main() -> None:
    """Train what is missing, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="*", default=[], choices=[*TASKS, *GPU_TASKS], metavar="TASK")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    done = {key(run) for run in stored()}
    for run in wanted(options.task):
        if run not in done:
            try:
                line = train(*run, options.device)
            except KeyboardInterrupt:  # MPS does not survive a process that ends while its kernels run
                if torch.cuda.is_initialized():
                    torch.cuda.synchronize()
                raise
            with (RESULTS / "runs.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{line['task']}: {run[1]}, seed {line['seed']}: {line['value']}  ({line['seconds']} s)", flush=True)
    write_tables("runs.jsonl", markdown(stored()))


if __name__ == "__main__":
    main()
