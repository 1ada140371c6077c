"""Test results of a comparison, with the differences between contenders, seed by seed: a table of stored runs.

`python benchmarks/paired_differences.py FOLDER TASK [--of spectral-plus scion] [--metric test_loss]`. Runs of one seed
have the same initial model and the same order of batches, so contenders are compared seed by seed. Results are means ±
standard errors, and differences have 95 % intervals by Student's t. They are of the contenders in `--of` minus the
contender of the line.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from adamplus.lab._present.statistics import summarize


@dataclass
class Found:
    """The runs of a contender."""

    final: dict[int, float] = field(default_factory=dict)
    """The metric after the last epoch of each final run that finished, by its seed."""
    runs: int = 0
    """All runs, trials included."""
    lost: int = 0
    """Those that diverged or failed."""
    state: float = 0.0
    """Bytes of state for each parameter of the model."""
    settings: str = ""
    """Settings of the final runs that were searched."""


def read(folder: Path, task: str, metric: str) -> dict[str, Found]:
    """The runs of each contender of a comparison on a task."""
    found: dict[str, Found] = defaultdict(Found)
    for run in json.loads((folder / "comparison.json").read_text())["runs"]:
        about = json.loads((folder / run / "settings.json").read_text())
        spec, end = about["spec"], json.loads((folder / run / "end.json").read_text())
        if Path(spec["task"]).stem != task:
            continue
        one = found[spec["label"]]
        one.runs += 1
        one.lost += end["status"] != "finished"
        if spec["phase"] == "final" and end["status"] == "finished":
            last = json.loads((folder / run / "metrics.jsonl").read_text().splitlines()[-1])
            one.final[spec["seed"]] = last[metric]
            one.state = end["state_bytes"] / about["parameters"]
            one.settings = ", ".join(f"{name} {value:g}" for name, value in spec["settings"].items())
    return found


def difference(one: Found, other: Found) -> str:
    """The mean difference over the seeds that both have, and its interval."""
    values = [value - other.final[seed] for seed, value in one.final.items() if seed in other.final]
    summary = summarize(values)
    if summary.mean is None or summary.interval is None:
        return "–"
    return f"{summary.mean:+.3f} [{summary.interval[0]:+.3f}, {summary.interval[1]:+.3f}]".replace("-", "−")


def table(found: dict[str, Found], of: Sequence[str], metric: str) -> str:
    """The table in Markdown, the best contender first, those without a result last."""
    means = {label: summarize(one.final.values()) for label, one in found.items()}
    heads = [f"{name} minus it" for name in of]
    lines = [
        f"| contender | {metric.replace('_', ' ')} | n | {' | '.join(heads)} | state, B/param | runs lost | settings |",
        f"|---|--:|--:|{'--:|' * len(of)}--:|--:|---|",
    ]
    for label, summary in sorted(means.items(), key=lambda item: math.inf if item[1].mean is None else item[1].mean):
        one = found[label]
        pairs = ["" if label == name else difference(found[name], one) for name in of]
        mean = "–" if summary.mean is None else f"{summary.mean:.3f}"
        error = "" if summary.error is None else f" ± {summary.error:.3f}"
        state = f"{one.state:.2f}" if one.final else "–"
        cells = [label, mean + error, str(summary.n), *pairs, state, f"{one.lost} of {one.runs}", one.settings]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table of a folder of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("task")
    parser.add_argument("--of", nargs="+", default=["spectral-plus", "scion"])
    parser.add_argument("--metric", default="test_loss")
    given = parser.parse_args()
    found = read(given.folder, given.task, given.metric)
    if unknown := [name for name in given.of if name not in found]:
        raise SystemExit(
            f"{given.folder} has no runs of {', '.join(unknown)} on {given.task}, only of {', '.join(found)}"
        )
    print(table(found, given.of, given.metric))


if __name__ == "__main__":
    main()
