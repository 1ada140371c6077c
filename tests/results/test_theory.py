"""Tests that the tables of results/theory and docs/theory.md agree with the stored measurements."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from adamplus.lab.measured_theory import PROVED, RateRequest, VarianceRequest, variance_report
from adamplus.lab.measured_theory import tables as _tables
from adamplus.lab.measured_theory.measurement import problem_of
from adamplus.lab.measured_theory.methods import METHODS, Scale
from adamplus.lab.measured_theory.walks import Limits, walk

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "theory"


def measured(kind: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{kind}.json").read_text())


@pytest.mark.parametrize("kind", ["table1", "rate", "variance"])
def test_tables_of_the_results_page_are_made_from_the_stored_numbers(kind: str):
    about = variance_report if kind == "variance" else _tables
    text = about.markdown(measured(kind))
    assert (RESULTS / f"{kind}.md").read_text() == text
    assert (RESULTS / f"{kind}.csv").read_text() == about.to_csv(measured(kind))
    assert text.strip() in (RESULTS / "README.md").read_text()


@pytest.mark.parametrize("kind", ["table1", "rate", "variance"])
def test_figures_and_certificates_exist(kind: str):
    for ending in ("png", "pdf"):
        assert (RESULTS / f"{kind}.{ending}").stat().st_size > 10_000
    certificate = measured(kind)["certificate"]
    assert certificate["command"].startswith(f"adamplus theory {kind}")
    assert {"hardware", "versions", "started", "git"} <= set(certificate)
    assert certificate["git"]["dirty"] is False


def test_requests_make_the_command_lines_that_reports_store():
    requests = {
        "table1": RateRequest("table1", ",".join(METHODS), "double-well,valley", "0.2,0.02,5", 64, 16, 16_000, 2),
        "rate": RateRequest("rate", ",".join(PROVED), "double-well", "0.3,0.03,6", 64, None, 100_000, 2),
        "variance": VarianceRequest(5, 40, 2000, 0.1, "1.0,1.0"),
    }
    assert {kind: request.command for kind, request in requests.items()} == {
        kind: measured(kind)["certificate"]["command"] for kind in requests
    }


def test_every_row_of_table_1_was_measured_on_both_problems():
    found = measured("table1")
    assert {(row["problem"], row["method"]) for row in found["rows"]} == {
        (problem, method) for problem in ("double-well", "valley") for method in METHODS
    }
    assert found["certificate"]["processor_seconds"] <= 2 * 15 * 60  # 15 minutes on two cores


def test_the_guide_has_the_measured_slopes():
    page = (ROOT / "docs" / "theory.md").read_text()
    for row in measured("table1")["rows"]:
        if row["problem"] == "valley":
            well = next(
                r for r in measured("table1")["rows"] if (r["problem"], r["method"]) == ("double-well", row["method"])
            )
            cells = [_tables.measured(of)[0] for of in (well, row)]
            assert f"| {row['name']} | {_tables.power(row['proved_exponent'])} | {' | '.join(cells)} |" in page


def test_the_guide_has_the_measured_errors_of_z():
    page = (ROOT / "docs" / "theory.md").read_text()
    for line in variance_report.cells(measured("variance"))[1:]:
        assert f"| {' | '.join(line[:6])} |" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "problem", "epsilon", "share", "factor", "own", "goal", "expected"),
    [
        # stagewise AdaGrad with 8 and 16 samples: a slope of 3.4 over the last three ε
        ("stagewise", "valley", 0.06325, 8 / 64, 2, 8, 1.0, 2208),
        ("stagewise", "valley", 0.03557, 16 / 64, 2, 8, 1.0, 15_136),
        ("stagewise", "valley", 0.02, 8 / 64, 2, 8, 1.0, 110_888),
        # the longest steps of the grid, and twice as long ones
        ("adam-plus", "valley", 0.02, 1 / 64, 64, 1, 0.9, 37_660),
        ("adam-plus", "valley", 0.02, 1 / 64, 128, 1, 0.9, math.inf),
        ("sgd", "double-well", 0.2, 1 / 8, 1, 1, 0.9, 156),
        ("sgd", "double-well", 0.2, 1 / 8, 2, 1, 0.9, math.inf),
        ("sgd", "double-well", 0.06325, 1 / 64, 2, 1, 0.9, math.inf),
        # the smallest batch of the grid, and an eighth of it: 18 % and 51 % fewer evaluations
        ("adam-plus", "valley", 0.03557, 1 / 64, 32, 1, 0.9, 8008),
        ("adam-plus", "valley", 0.03557, 1 / 512, 64, 1, 0.9, 6592),
        ("storm", "valley", 0.03557, 1 / 64, 4, 1, 0.9, 8604),
        ("storm", "valley", 0.03557, 1 / 512, 4, 10, 0.9, 4198),
    ],
)
def test_figures_of_the_guide_for_settings_beyond_the_table(
    method: str, problem: str, epsilon: float, share: float, factor: float, own: float, goal: float, expected: float
):
    """Evaluations until the mean of the 16 tuning runs is at most `goal` times ε."""
    known = problem_of(problem, epsilon)
    candidate = METHODS[method].make(Scale(known, epsilon, share), factor, own)
    found = walk(candidate.begin, known, goal * epsilon, 16, 1, Limits(16_000)).reached(goal * epsilon)[0]
    assert (math.inf if math.isnan(found) else found) == pytest.approx(expected, rel=0.05)
