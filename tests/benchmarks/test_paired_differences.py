"""The table of paired differences counts runs that were lost, and contenders without a result."""

import json
from pathlib import Path

from paired_differences import read, table


def store(folder: Path, label: str, ends: dict[int, str], losses: dict[int, float]) -> list[str]:
    """Runs of a contender: a trial (seed 0) and final runs, by seed."""
    names = []
    for seed, status in ends.items():
        run = folder / f"runs/{label}/{seed}"
        run.mkdir(parents=True)
        spec = {"task": "x.py", "label": label, "phase": "final" if seed else "search", "seed": seed, "settings": {}}
        (run / "settings.json").write_text(json.dumps({"spec": spec, "parameters": 10}))
        (run / "end.json").write_text(json.dumps({"status": status, "state_bytes": 40}))
        (run / "metrics.jsonl").write_text(json.dumps({"test_loss": losses.get(seed)}) + "\n")
        names.append(f"runs/{label}/{seed}")
    return names


def test_lost_final_runs_are_counted_and_a_contender_without_results_is_last(tmp_path: Path):
    names = store(tmp_path, "none", {0: "finished", 1: "diverged", 2: "failed"}, {})
    names += store(tmp_path, "one", {0: "diverged", 1: "finished", 2: "failed"}, {1: 2.0})
    names += store(tmp_path, "two", {0: "finished", 1: "finished", 2: "finished"}, {1: 1.0, 2: 1.5})
    (tmp_path / "comparison.json").write_text(json.dumps({"runs": names}))
    _, _, *lines = table(read(tmp_path, "x", "test_loss"), ["two"], "test_loss").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [line[0] for line in cells] == ["two", "one", "none"]
    assert [line[1] for line in cells] == ["1.250 ± 0.250", "2.000", "–"]
    assert [line[4:6] for line in cells] == [["4.00", "0 of 3"], ["4.00", "2 of 3"], ["–", "2 of 3"]]
