"""Tests of Table 1's search: the windows, the choice of settings in two stages, and resumption."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from adamplus.lab.measured_theory import cases, search, table1
from adamplus.lab.measured_theory._methods import FINER, METHODS, SHARES, STEPS
from adamplus.lab.measured_theory._methods.windows import Scale
from adamplus.lab.measured_theory.cases import CRITERIA, Case
from adamplus.lab.measured_theory.request import Table1Request
from adamplus.lab.measured_theory.search import measure, tune, tune_in_stages
from adamplus.lab.measured_theory.traces import Rivalry
from adamplus.theory.problems import DoubleWell


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_same_windows(method: str):
    groups = list(METHODS[method].all_groups(DoubleWell(), 0.01))
    thirds = len(METHODS[method].third)
    assert thirds == (1 if method == "sgd-ema" else 3)
    assert {group.share for group in groups} == set(SHARES)
    for share in SHARES:
        places = [place for group in groups if group.share == share for place in group.places]
        assert sorted(places) == [(i, j) for i in range(len(STEPS)) for j in range(thirds)]
    averages = 1 if METHODS[method].name.startswith(("Adam⁺ (", "Nadam⁺", "Normalized")) else 3
    assert {max(1, len(group.weights)) for group in groups} == {averages}


@pytest.mark.parametrize("method", ["adam-plus", "storm", "amsgrad"])
def test_candidates_that_are_given_up_would_not_have_been_chosen(method: str, monkeypatch: pytest.MonkeyPatch):
    case = Case("valley", method, 0.15, runs=4, tuning_runs=6)
    problem = case.make_problem()
    groups = [g for g in METHODS[method].all_groups(problem, case.epsilon) if g.share in (1.0, 1 / 8, 1 / 64)]

    def best(criterion: str, options: dict[str, list[Any]]) -> float:
        return min((option.needed for option in options[criterion]), default=math.inf)

    def tuned() -> dict[str, list[Any]]:
        return tune(case, problem, groups, Rivalry(cases.MARGIN * case.epsilon, case.steps))

    found = tuned()
    original = Rivalry.staying
    monkeypatch.setattr(Rivalry, "staying", lambda self, look: original(self, look) | True)
    monkeypatch.setattr(Case, "steps", 600)
    with_all = tuned()
    for criterion in CRITERIA:
        if best(criterion, with_all) < math.inf:
            assert best(criterion, found) <= best(criterion, with_all)


@pytest.mark.parametrize("method", METHODS)
def test_the_second_stage_has_batches_between_those_of_the_first(method: str):
    third = len(METHODS[method].third) - 1
    problem = DoubleWell(sigma=8.0)
    chosen = [(SHARES[2], 4, third), (SHARES[3], 0, 0)]
    groups = list(METHODS[method].finer_groups(problem, 0.01, chosen))
    shares = [group.share for group in groups]
    assert shares == sorted(shares, reverse=True)
    assert set(shares) == {factor * share for share in SHARES[2:4] for factor in FINER}
    assert {b / a for a, b in pairwise(sorted({*shares, *SHARES[2:4]}))} == {2.0}
    first = {place for group in groups if group.share == 2 * SHARES[2] for place in group.places}
    assert first == {(3, third), (4, third), (5, third)}
    both = {place for group in groups if group.share == SHARES[2] / 4 for place in group.places}
    assert both == first | {(0, 0), (1, 0)}  # around both choices
    assert {place for group in groups if group.share == SHARES[3] / 4 for place in group.places} == {(0, 0), (1, 0)}
    for group in groups:
        every = [g for g in METHODS[method].groups(Scale(problem, 0.01, group.share)) if g.shared == group.shared]
        by_place = dict(zip(every[0].places, every[0].settings, strict=True))
        assert group.settings == [by_place[place] for place in group.places]


def test_the_second_stage_finds_what_the_first_has_missed():
    case = Case("valley", "adam-plus", 0.1, runs=4, tuning_runs=8)
    problem = case.make_problem()
    groups, options = tune_in_stages(case, problem)
    alone = tune(case, problem, groups[: len(SHARES)], Rivalry(cases.MARGIN * case.epsilon, case.steps))
    best, coarse = (min(found["average"], key=lambda one: one.needed) for found in (options, alone))
    assert groups[coarse.group].share in SHARES
    assert groups[best.group].share not in SHARES
    assert best.needed < coarse.needed
    assert {groups[one.group].share for one in options["average"]} <= {group.share for group in groups}


def test_a_measurement_repeats_and_its_runs_are_not_those_of_tuning():
    case = Case("double-well", "sgd-ema", 0.3, runs=6, tuning_runs=6)
    found, again = measure(case), measure(case)
    assert found == again
    assert 54 + 3 * len(FINER) - 3 <= found["candidates"] <= 54 + 2 * 3 * len(FINER)
    result = found["results"]["average"]
    assert result["interval"][0] <= result["evaluations"] <= result["interval"][1]
    assert set(result["edges"]) == {"step", "batch", "third", "weight"}
    assert case.seed(cases.SEED) != case.seed(cases.TUNING_SEED)
    assert case.seed(1) != Case("double-well", "sgd-ema", 0.2, 6, 6).seed(1)


def test_settings_at_the_ends_of_their_windows_are_marked():
    assert [search._edge(place, 3) for place in range(3)] == [-1, 0, 1]
    assert search._edge(0, 1) == 0


REQUEST = Table1Request("sgd-ema,adam-plus", "valley", "0.4,0.2,2", 2, 3, 2, 1)


def test_a_killed_table_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def killed(line: str) -> None:
        if line.startswith("3/"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table1.measure_table1(REQUEST, tmp_path, killed)
    lines: list[str] = []
    measured = Mock(side_effect=search.measure)
    monkeypatch.setattr(table1.search, "measure", measured)
    report = table1.measure_table1(REQUEST, tmp_path, lines.append)
    assert measured.call_count == 1
    assert ["(stored)" in line for line in lines] == [True, True, True, False]
    assert [(row["problem"], row["method"]) for row in report["rows"]] == [
        ("valley", "sgd-ema"),
        ("valley", "adam-plus"),
    ]
    assert report["certificate"]["processor_seconds"] > 0


def test_parts_of_other_code_or_with_damage_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    case = Case("valley", "sgd-ema", 0.4, 3, 2)
    first = table1.measure_part(tmp_path, case)
    assert table1.measure_part(tmp_path, case) == {**first, "resumed": True}
    path = next(tmp_path.iterdir())
    path.write_text(path.read_text().replace('"epsilon": 0.4', '"epsilon": 0.5'))  # its checksum is wrong now
    assert not table1.measure_part(tmp_path, case)["resumed"]
    monkeypatch.setattr(table1, "_code", lambda: "other code")
    assert not table1.measure_part(tmp_path, case)["resumed"]
