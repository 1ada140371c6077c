"""Tests that the tables of results/theory and docs/theory.md agree with the stored measurements."""

import json
import math
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from adamplus.lab.measured_theory import (
    METHODS,
    PROBLEMS,
    PROVED,
    RateRequest,
    Table1Request,
    VarianceRequest,
    table1_report,
    variance_report,
)
from adamplus.lab.measured_theory import tables as _tables
from adamplus.lab.measured_theory.slopes import Slope
from adamplus.theory.problems import DoubleWell

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "theory"
FOUR = ("sgd-ema", "adam-plus", "adam-plus-plain", "adam-plus-floor")
"""Methods that differ by averaging, the adaptive step, extrapolation and the lower bound."""


def measured(kind: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{kind}.json").read_text())


@pytest.mark.parametrize("kind", ["table1", "rate", "variance"])
def test_tables_of_the_results_page_are_made_from_the_stored_numbers(kind: str):
    about = {"table1": table1_report, "rate": _tables, "variance": variance_report}[kind]
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
        "table1": Table1Request(",".join(METHODS), ",".join(PROBLEMS), "0.4,0.004,7", 5, 32, 16, 2),
        "rate": RateRequest(",".join(PROVED), "double-well", "0.3,0.03,6", 64, 100_000, 2),
        "variance": VarianceRequest(5, 40, 2000, 0.1, "1.0,1.0"),
    }
    assert {kind: request.command for kind, request in requests.items()} == {
        kind: measured(kind)["certificate"]["command"] for kind in requests
    }


def test_every_row_of_table_1_was_measured_on_every_problem():
    found = measured("table1")
    assert [(row["problem"], row["method"]) for row in found["rows"]] == [(p, m) for p in PROBLEMS for m in METHODS]
    assert max(found["epsilons"]) == 100 * min(found["epsilons"])  # two decades
    assert found["certificate"]["processor_seconds"] <= 2 * 30 * 60  # 30 minutes on two cores


def _nearest(value: float, unit: float) -> float:
    """The product of the unit and a power of 2 that the table shows as this value, with three digits."""
    exact = unit * 2.0 ** round(math.log2(value / unit))
    assert value == pytest.approx(exact, rel=5e-3)
    return exact


def _gradient_of_the_double_well(x: Tensor) -> Tensor:
    return x / torch.sqrt(1 + x * x) - 2 * x * torch.exp(-x * x / 2)


@pytest.mark.parametrize("criterion", ["last", "average"])
@pytest.mark.parametrize("method", ["sgd-ema", "adam-plus"])
def test_a_stored_cell_is_that_of_a_loop_of_its_own(method: str, criterion: str):
    """Both columns on the double well at ε = 0.4: SGD and its moving average, Adam⁺ at ŵ and at w."""
    epsilon, runs, dim = 0.4, 32, 10
    row = next(r for r in measured("table1")["rows"] if (r["problem"], r["method"]) == ("double-well", method))
    cell = next(point for point in row["points"] if point["epsilon"] == epsilon)["results"][criterion]
    given = {name: float(number) for name, number in re.findall(r"(\w+)[= ]([\d.]+)(?=[,;]|$)", cell["settings"])}
    L = DoubleWell().L
    weight = _nearest(given["beta" if method == "adam-plus" else "average"], 1.0) if len(given) > 2 else 1.0
    lr = _nearest(given["lr"], (epsilon**0.5 / weight if method == "adam-plus" else 1.0) / L)
    batch = int(given["batch"])

    generator = torch.Generator().manual_seed(zlib.crc32(b"double-well 0.4 2"))
    w = at = 3 * torch.randn(runs, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(256, runs, dim, generator=generator, dtype=torch.float64) / dim**0.5
    z, evaluations, look, t = torch.zeros_like(w), 0, 1, 0
    squares, lengths = torch.zeros_like(w), torch.zeros(runs, dtype=torch.float64)
    for t in range(1, 257):
        size = max(batch, round(1 / weight)) if method == "adam-plus" and t == 1 else batch
        g = _gradient_of_the_double_well(at) + noise[t - 1] / size**0.5
        if method == "adam-plus":
            z = g if t == 1 else (1 - weight) * z + weight * g
            move = lr * weight * z / z.norm(dim=1, keepdim=True) ** 0.5
            w, at = w - move, w - move / weight
        else:
            z, at = g, at - lr * g
            w = (1 - weight) * w + weight * at
        squares, lengths, evaluations = squares + g * g, lengths + z.norm(dim=1), evaluations + size
        if t < look:
            continue
        look = math.floor(1.02 * t) + 1
        if _gradient_of_the_double_well(at if criterion == "last" else w).norm(dim=1).mean() <= epsilon:
            break
    assert (evaluations, t) == (cell["evaluations"], cell["steps"])
    assert squares.sqrt().sum(1).mean().item() == pytest.approx(cell["type1"])
    assert lengths.mean().item() == pytest.approx(cell["type2"])


def test_the_guide_has_the_measured_table():
    page = (ROOT / "docs" / "theory.md").read_text()
    for line in table1_report.summary(measured("table1"))[1:]:
        assert f"| {' | '.join(line)} |" in page


def test_the_guide_reads_the_table_as_it_is():
    """Every figure of the paragraphs on averaging, extrapolation and the adaptive step."""
    page = " ".join((ROOT / "docs" / "theory.md").read_text().split())
    rows = {(row["problem"], row["method"]): row for row in measured("table1")["rows"]}

    def needed(method: str, criterion: str) -> str:
        return table1_report.count_text(table1_report.evaluations(rows["valley", method], criterion)[-1])

    def slope(method: str) -> Slope:
        found = table1_report.slope_of(rows["valley", method], "average")
        assert found is not None
        return found

    def interval(method: str) -> str:
        result = rows["valley", method]["points"][-1]["results"]["average"]
        return f"({' to '.join(map(table1_report.count_text, result['interval']))})"

    last, average = ({m: needed(m, criterion) for m in METHODS} for criterion in ("last", "average"))
    sgd, own, plain, bound = (f"{average[m]} {interval(m)}" for m in FOUR)
    assert f"SGD needs {last['sgd-ema']} at its last iterate and {sgd} at a moving average" in page
    assert f"Adam⁺ needs {last['adam-plus']} at ŵ and {own} at w" in page
    assert f"with gradients at w and an average on top it needs {plain}." in page
    assert f"removes this: {bound}." in page
    texts = [_tables.slope_text(slope(m), 7) for m in ("adam-plus", "adam-plus-floor", "sgd-ema")]
    assert "Slopes at w: Adam⁺ {}, with the bound {}, SGD {}.".format(*texts) in page
    counts = sorted(table1_report.evaluations(rows["double-well", m], "average")[-1] or 0 for m in FOUR)
    ends = " to ".join(map(table1_report.count_text, (counts[0], counts[-1])))
    assert f"agree within {100 * (counts[-1] / counts[0] - 1):.0f} %: {ends}." in page


def test_orderings_that_the_guide_states_are_resolved():
    rows = {row["method"]: row for row in measured("table1")["rows"] if row["problem"] == "valley"}
    results = {m: rows[m]["points"][-1]["results"] for m in FOUR}
    low, high = ({m: results[m]["average"]["interval"][end] for m in FOUR} for end in (0, 1))
    assert high["adam-plus-plain"] < low["adam-plus"]  # extrapolation needs more
    assert high["adam-plus-floor"] < low["adam-plus"]  # and the bound removes this
    assert low["adam-plus-plain"] < high["sgd-ema"]  # "costs nothing that is resolved"
    for method in FOUR:  # averaging
        assert high[method] < results[method]["last"]["interval"][0]
    with_w, sgd = (table1_report.slope_of(rows[m], "average") for m in ("adam-plus", "sgd-ema"))
    assert with_w is not None
    assert sgd is not None
    stated = (
        "The first differs from the last." if with_w.differs_from(sgd) else "The first is not resolved from the last."
    )
    assert stated in " ".join((ROOT / "docs" / "theory.md").read_text().split())


def test_the_guide_has_at_most_1200_words():
    page = (ROOT / "docs" / "theory.md").read_text()
    written = re.sub(r"<!-- (table1|rate|variance) -->.*?<!-- end -->", "", page, flags=re.S)  # generated tables
    assert len(re.findall(r"\S*\w\S*", written)) <= 1200


def test_the_guide_has_the_measured_errors_of_z():
    page = (ROOT / "docs" / "theory.md").read_text()
    for line in variance_report.cells(measured("variance"))[1:]:
        assert f"| {' | '.join(line[:6])} |" in page
