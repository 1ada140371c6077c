"""Training time until each contender is as good as another one at its end: a table of the runs of a comparison.

`python benchmarks/time_to_loss.py FOLDER TASK [--of adamw] [--metric test_loss]`. For each contender, the metric is
averaged over its final runs, epoch by epoch. Its time is the mean at the first epoch that is at least as good, so it is
at most one epoch too long. Compare times of runs that had the device to themselves (--workers 1).
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

Curve = list[tuple[float, float]]
"""Training seconds and the metric at the end of each epoch."""


def curves(folder: Path, task: str, metric: str) -> dict[str, Curve]:
    """The mean curve of each contender, from the comparison's final runs that finished."""
    found: dict[str, list[Curve]] = defaultdict(list)
    for run in json.loads((folder / "comparison.json").read_text())["runs"]:
        spec = json.loads((folder / run / "settings.json").read_text())["spec"]
        status = json.loads((folder / run / "end.json").read_text())["status"]
        if Path(spec["task"]).stem == task and spec["phase"] == "final" and status == "finished":
            epochs = map(json.loads, (folder / run / "metrics.jsonl").open())
            found[spec["label"]].append([(epoch["seconds"], epoch[metric]) for epoch in epochs])
    return {label: [mean(same) for same in zip(*runs, strict=True)] for label, runs in found.items()}


def mean(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean of each coordinate."""
    seconds, values = zip(*points, strict=True)
    return fmean(seconds), fmean(values)


def table(found: dict[str, Curve], of: str) -> str:
    """The table in Markdown."""
    whole, target = found[of][-1]
    lines = [
        f"| contender | at its end | seconds | seconds to {target:.4g} | of {of}'s |",
        "|---|--:|--:|--:|--:|",
    ]
    for label, curve in sorted(found.items(), key=lambda item: item[1][-1][1]):
        reached = next((seconds for seconds, value in curve if value <= target), None)
        last = ("–", "–") if reached is None else (f"{reached:.1f}", f"{reached / whole:.2f}")
        lines.append("| " + " | ".join((label, f"{curve[-1][1]:.4g}", f"{curve[-1][0]:.1f}", *last)) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table of a folder of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("task")
    parser.add_argument("--of", default="adamw")
    parser.add_argument("--metric", default="test_loss")
    given = parser.parse_args()
    found = curves(given.folder, given.task, given.metric)
    if given.of not in found:
        raise SystemExit(
            f"{given.folder} has no finished final runs of {given.of} on {given.task}, only of {', '.join(found)}"
        )
    print(table(found, given.of))


if __name__ == "__main__":
    main()
