"""results/gpt: the figures in README.md are those of the stored runs."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from adamplus.lab._present.statistics import summarize

RESULTS = Path(__file__).parents[2] / "results" / "gpt"
ROWS = {
    "adamw": "AdamW | **{mean:.1f} ± {error:.1f}**",
    "msgd": "momentum SGD | {mean:.1f} ± {error:.1f}",
    "adam-plus": "Adam⁺, one norm | {mean:.1f} ± {error:.1f}",
    "adam-plus:norm_scope=tensor": "Adam⁺, a norm for each tensor | {mean:.1f} ± {error:.1f}",
}
ALONE = {("unclipped", "adam-plus"): "Adam⁺, one norm | {mean:.0f} ± {error:.0f} ({0:.0f}, {1:.0f}, {2:.0f})"}


def runs(folder: str, label: str, phase: str) -> list[tuple[dict[str, Any], list[dict[str, float]], str]]:
    """Spec, lines of metrics and how it ended, of each run in the order of trials and seeds."""
    found = []
    for path in (RESULTS / folder).glob("runs/*/*/*/settings.json"):
        spec = json.loads(path.read_text())["spec"]
        if (spec["label"], spec["phase"]) == (label, phase):
            lines = [json.loads(line) for line in path.with_name("metrics.jsonl").read_text().splitlines()]
            found.append((spec, lines, json.loads(path.with_name("end.json").read_text())["status"]))
    return sorted(found, key=lambda run: (run[0]["trial"], run[0]["seed"]))


@pytest.mark.parametrize("label", ROWS)
@pytest.mark.parametrize("folder", ["clipped", "unclipped"])
def test_the_tables_have_the_numbers_of_the_runs(folder: str, label: str):
    trials, final = runs(folder, label, "search"), runs(folder, label, "final")
    assert (len(trials), len(final)) == (8, 3)
    lost = [spec for spec, _, status in trials if status == "diverged"]
    best, _, _ = min((run for run in trials if run[0] not in lost), key=lambda run: run[1][-1]["validation_perplexity"])
    rate = best["settings"]["lr"]
    assert {spec["settings"]["lr"] for spec, _, _ in final} == {rate}
    tried = sorted(spec["settings"]["lr"] for spec, _, _ in trials)
    assert tried[0] < rate < tried[-1]
    factors = [b / a for a, b in itertools.pairwise(tried)]
    assert (f"{min(factors):.1f}", f"{max(factors):.1f}") == ("1.2", "3.7")
    assert {status for _, _, status in final} == {"finished"}
    ends = [lines[-1]["test_perplexity"] for _, lines, _ in final]
    found = summarize(ends)
    numbers = ALONE.get((folder, label), ROWS[label]).format(*ends, mean=found.mean, error=found.error)
    clipped, unclipped = (RESULTS / "README.md").read_text().split("## Without clipping")
    assert f"| {numbers} | {rate} | {len(lost)} of 8 |" in {"clipped": clipped, "unclipped": unclipped}[folder]


@pytest.mark.parametrize("label", ["adam-plus", "adam-plus:norm_scope=tensor"])
@pytest.mark.parametrize("metric", ["running_perplexity", "test_perplexity"])
def test_adam_plus_is_behind_from_the_first_epoch_on(label: str, metric: str):
    behind, ahead = ([lines for _, lines, _ in runs("clipped", name, "final")] for name in (label, "msgd"))
    for one, other in itertools.product(behind, ahead):
        assert all(a[metric] > b[metric] for a, b in zip(one, other, strict=True))


def test_momentum_sgd_takes_a_rate_seven_times_as_large_where_gradients_are_clipped():
    rates = [runs(folder, "msgd", "final")[0][0]["settings"]["lr"] for folder in ("clipped", "unclipped")]
    assert round(rates[0] / rates[1]) == 7
