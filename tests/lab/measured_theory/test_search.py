"""Tests of Table 1's search: curves against loops of their own, the choice of settings, and resumption."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from adamplus import AdamPlusReference
from adamplus.lab.measured_theory import cases, search, table1
from adamplus.lab.measured_theory._methods import BLOCK, FINER, METHODS, SHARES, STEPS, Sampler, rules
from adamplus.lab.measured_theory._methods.windows import Scale
from adamplus.lab.measured_theory.cases import CRITERIA, Case
from adamplus.lab.measured_theory.request import Table1Request
from adamplus.lab.measured_theory.search import measure, tune, tune_in_stages
from adamplus.lab.measured_theory.traces import Measuring, Rivalry, Trace, running_means, walk
from adamplus.theory.problems import DoubleWell

RUNS, BATCH, SEED = 5, 4, 3


def gradient_of_the_double_well(x: Tensor) -> Tensor:
    """h'(x) = x/√(1+x²) − 2x e^(−x²/2)."""
    return x / torch.sqrt(1 + x * x) - 2 * x * torch.exp(-x * x / 2)


def noise_of_the_runs(dim: int, steps: int) -> tuple[Tensor, list[Tensor]]:
    """Starting points and noise of σ = 1 that `Sampler` draws with the seed."""
    generator = torch.Generator().manual_seed(SEED)
    start = 3 * torch.randn(RUNS, dim, generator=generator, dtype=torch.float64)
    drawn = torch.randn(BLOCK, RUNS, dim, generator=generator, dtype=torch.float64)
    return start, [n / math.sqrt(dim * BATCH) for n in drawn[:steps]]


def first_below(norms: list[float], epsilon: float) -> int:
    return 1 + next(i for i, norm in enumerate(norms) if norm <= epsilon)


def traced(rule: rules.Rule, sampler: Sampler, weights: tuple[float, ...] = ()) -> Trace:
    limits = {criterion: np.full(1, 1e9) for criterion in CRITERIA}
    return walk(
        rule, sampler, weights, 50, Measuring(0.0, limits, 1.0), growth=True
    )  # up to step 50, every step is a look


def test_last_and_averaged_iterates_of_sgd_are_those_of_a_loop():
    problem, lr, weight = DoubleWell(6), 0.4, 0.2
    sampler = Sampler(problem, RUNS, SEED)
    trace = traced(rules.SGD(sampler.start, [{"lr": lr}], BATCH), sampler, (weight, 0.5))

    start, noise = noise_of_the_runs(6, 50)
    x, mean, squares, length = start, start, torch.zeros(RUNS, 6, dtype=torch.float64), 0.0
    last, averaged, type1, type2 = [], [], [], []
    for n in noise:
        g = gradient_of_the_double_well(x) + n
        squares, length = squares + g * g, length + g.norm(dim=1).mean().item()
        x = x - lr * g
        mean = (1 - weight) * mean + weight * x
        last.append(gradient_of_the_double_well(x).norm(dim=1).mean().item())
        averaged.append(gradient_of_the_double_well(mean).norm(dim=1).mean().item())
        type1.append(squares.sqrt().sum(1).mean().item())
        type2.append(length)
    for point, criterion, norms in ((0, "last", last), (1, "average", averaged)):
        curve = trace.curve(0, point, criterion)
        assert list(curve.evaluations) == [BATCH * t for t in range(1, 51)]
        np.testing.assert_allclose(curve.norms.mean(1), norms, rtol=1e-10)
        assert curve.reached(0.6)[0] == BATCH * first_below(norms, 0.6)
    so_far = [float(np.mean(last[:t])) for t in range(1, 51)]
    np.testing.assert_allclose(trace.curve(0, -1, "random").norms.mean(1), so_far, rtol=1e-10)
    np.testing.assert_allclose([look[0] for look in trace.type1], type1, rtol=1e-10)
    np.testing.assert_allclose([look[0] for look in trace.type2], type2, rtol=1e-10)


def test_the_average_of_adam_plus_is_its_w_and_its_last_iterate_the_extrapolated_point():
    problem, lr, beta = DoubleWell(6), 0.6, 0.25
    sampler = Sampler(problem, RUNS, SEED)
    rule = rules.Family(sampler.start, [{"lr": lr, "beta": beta, "eps": 1e-8}], BATCH, beta_power=1.0, norm_power=0.5)
    trace = traced(rule, sampler)

    start, noise = noise_of_the_runs(6, 50)
    points = [nn.Parameter(row.clone()) for row in start]
    optimizers = [AdamPlusReference([p], lr=lr, beta=beta) for p in points]
    last, averaged = [], []
    for n in noise:  # the first batch is max(BATCH, 1/β), which is BATCH here
        for row, (p, optimizer) in enumerate(zip(points, optimizers, strict=True)):
            p.grad = gradient_of_the_double_well(p.detach()) + n[row]
            optimizer.step()
        at = torch.stack([p.detach() for p in points])
        w = torch.stack([optimizer.state[p]["w"] for p, optimizer in zip(points, optimizers, strict=True)])
        last.append(gradient_of_the_double_well(at).norm(dim=1).mean().item())
        averaged.append(gradient_of_the_double_well(w).norm(dim=1).mean().item())
    np.testing.assert_allclose(trace.curve(0, 0, "last").norms.mean(1), last, rtol=1e-9)
    np.testing.assert_allclose(trace.curve(0, 1, "average").norms.mean(1), averaged, rtol=1e-9)
    so_far = [float(np.mean(averaged[:t])) for t in range(1, 51)]  # the theorems speak of w
    np.testing.assert_allclose(trace.curve(0, -1, "random").norms.mean(1), so_far, rtol=1e-9)


def test_the_mean_over_iterates_counts_the_steps_between_two_looks():
    norms = np.array([[4.0], [2.0], [1.0]])
    assert running_means(np.array([1, 2, 6]), norms)[:, 0] == pytest.approx([4, 3, (4 + 2 + 4 * 1) / 6])


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


def test_a_candidate_on_the_floor_of_the_valley_is_not_given_up(monkeypatch: pytest.MonkeyPatch):
    """There ‖∇F‖ is 2ε until the end, so that it does not fall as 1/t."""
    epsilon, lr = 0.05, 1 / 8
    case = Case("valley", "sgd-ema", epsilon, runs=4, tuning_runs=6)
    problem = case.make_problem()
    settings, goal = [{"lr": lr / problem.L}], cases.MARGIN * epsilon

    def walked(steps: int) -> Trace:
        sampler = Sampler(problem, case.tuning_runs, SEED)
        rule = rules.SGD(sampler.start, settings, round(8 * (problem.sigma / epsilon) ** 2))
        return walk(rule, sampler, (0.5,), steps, Rivalry(goal, steps), growth=False)

    long = walked(4000)
    arrived = next(step for step, norms in zip(long.steps, long.norms, strict=True) if norms[0].mean() <= goal)
    assert arrived > 1 / (8 * epsilon**2) / lr / 2  # it is slow
    short = walked(round(1.1 * arrived))
    assert math.isfinite(short.curve(0, 0, "last").reached(goal)[0])


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
