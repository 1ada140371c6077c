"""The tables of results/theory and docs/theory.md are what was measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from adamplus.lab.theory import _tables, _variance_report
from adamplus.lab.theory._methods import METHODS

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results" / "theory"


def measured(kind: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{kind}.json").read_text())


@pytest.mark.parametrize("kind", ["table1", "rate", "variance"])
def test_tables_of_the_results_page_are_those_that_were_measured(kind: str):
    about = _variance_report if kind == "variance" else _tables
    text = about.markdown(measured(kind))
    assert (RESULTS / f"{kind}.md").read_text() == text
    assert (RESULTS / f"{kind}.csv").read_text() == about.to_csv(measured(kind))
    assert text.strip() in (RESULTS / "README.md").read_text()


@pytest.mark.parametrize("kind", ["table1", "rate", "variance"])
def test_figures_and_birth_certificates_are_there(kind: str):
    for ending in ("png", "pdf"):
        assert (RESULTS / f"{kind}.{ending}").stat().st_size > 10_000
    certificate = measured(kind)["certificate"]
    assert certificate["command"].startswith(f"adamplus theory {kind}")
    assert {"hardware", "versions", "started", "git"} <= set(certificate)


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
    for line in _variance_report.cells(measured("variance"))[1:]:
        assert f"| {' | '.join(line[:6])} |" in page
