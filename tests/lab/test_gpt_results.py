"""results/gpt: its words are what the stored runs say."""

import itertools
import json
from pathlib import Path

import pytest

from adamplus.lab.report._statistics import summarize

RESULTS = Path(__file__).parent.parent.parent / "results" / "gpt"
ROWS = {
    "adamw": "AdamW | **{mean:.1f} ± {error:.1f}**",
    "msgd": "momentum SGD | {mean:.1f} ± {error:.1f}",
    "adam-plus:norm_scope=tensor": "Adam⁺, a norm for each tensor | {mean:.1f} ± {error:.1f}",
    "adam-plus": "Adam⁺, one norm | {mean:.0f} ± {error:.0f} ({0:.0f}, {1:.0f}, {2:.0f})",
}


@pytest.mark.parametrize("label", ROWS)
def test_the_table_has_the_numbers_of_the_runs(label: str):
    runs = [path.parent for path in (RESULTS / "unclipped").glob("runs/*/*/*/settings.json")]
    specs = {run: json.loads((run / "settings.json").read_text())["spec"] for run in runs}
    trials = [run for run, spec in specs.items() if (spec["label"], spec["phase"]) == (label, "search")]
    final = [run for run, spec in specs.items() if (spec["label"], spec["phase"]) == (label, "final")]
    assert (len(trials), len(final)) == (8, 3)
    lines = {run: json.loads((run / "metrics.jsonl").read_text().splitlines()[-1]) for run in (*trials, *final)}
    lost = [run for run in trials if json.loads((run / "end.json").read_text())["status"] == "diverged"]
    best = min((run for run in trials if run not in lost), key=lambda run: lines[run]["validation_perplexity"])
    rate = specs[best]["settings"]["lr"]
    assert {specs[run]["settings"]["lr"] for run in final} == {rate}
    tried = sorted(specs[run]["settings"]["lr"] for run in trials)
    assert tried[0] < rate < tried[-1]
    factors = [b / a for a, b in itertools.pairwise(tried)]
    assert (f"{min(factors):.1f}", f"{max(factors):.1f}") == ("1.2", "3.7")
    assert (factors.index(max(factors)) == tried.index(rate)) == (label != "adam-plus")
    ends = [lines[run]["test_perplexity"] for run in sorted(final, key=lambda run: specs[run]["seed"])]
    found = summarize(ends)
    numbers = ROWS[label].format(*ends, mean=found.mean, error=found.error)
    assert f"| {numbers} | {rate} | {len(lost)} of 8 |" in (RESULTS / "README.md").read_text()
