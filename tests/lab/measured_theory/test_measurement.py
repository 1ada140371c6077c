"""Tests of the measurement of rates and errors, against known values."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from adamplus import AdamPlusReference, rivals
from adamplus.lab.measured_theory.measurement import Case, in_processes, measure
from adamplus.lab.measured_theory.methods import adam_plus_candidate, optimizer_candidate
from adamplus.lab.measured_theory.variance import on_double_well
from adamplus.lab.measured_theory.variance_report import level
from adamplus.lab.measured_theory.walks import BatchedAdamPlus, Limits, walk
from adamplus.theory.problems import DoubleWell


@pytest.mark.parametrize("extrapolate", [True, False])
@pytest.mark.parametrize(("power", "norm_power", "eps"), [(1.0, 0.5, 1e-8), (4 / 3, 2 / 3, 0.7), (1.25, 1.0, 0.0)])
def test_batched_runs_are_runs_of_the_reference(power: float, norm_power: float, eps: float, extrapolate: bool):
    problem, generator = DoubleWell(3), torch.Generator().manual_seed(0)
    start = problem.start(4, generator)
    settings: dict[str, Any] = {"lr": 0.3, "beta": 0.2, "beta_power": power, "norm_power": norm_power, "eps": eps}
    rows = BatchedAdamPlus(start, **settings, extrapolate=extrapolate)
    ws = [nn.Parameter(w.clone()) for w in start]
    references = [AdamPlusReference([w], **settings) for w in ws]
    for _ in range(20):
        sample = problem.draw(4, 1, generator)
        for w, reference in zip(ws, references, strict=True):
            reference.train(extrapolate)
            w.grad = torch.zeros_like(w)
        at = torch.stack([w.detach() for w in ws])
        for w, g, reference in zip(ws, problem.gradient(at, sample), references, strict=True):
            reference.train()  # for gradients at either point
            w.grad = g
            reference.step()
        rows.step(problem.gradient(rows.at, sample))
        expected = torch.stack([reference.state[w]["w"] for w, reference in zip(ws, references, strict=True)])
        torch.testing.assert_close(rows.w, expected, rtol=1e-12, atol=1e-12)  # rounding of the same formula


def test_a_run_at_a_stationary_point_does_not_become_nan():
    rows = BatchedAdamPlus(torch.zeros(2, 3, dtype=torch.float64), eps=0.0, norm_power=1.0)
    rows.step(torch.zeros(2, 3, dtype=torch.float64))
    assert torch.equal(rows.w, torch.zeros(2, 3, dtype=torch.float64))


def test_evaluations_are_counted_until_the_mean_is_below_epsilon():
    problem = DoubleWell(2, sigma=0.0)
    candidate = adam_plus_candidate({"lr": 0.5, "beta": 0.5}, (10, 3))
    curve = walk(candidate.begin, problem, 0.1, 3, 0, Limits(1000, beyond=2.0))
    needed = curve.reached(0.1)[0]
    assert curve.evaluations[0] == 10
    assert all((curve.evaluations - 10) % 3 == 0)
    first = int(np.argmax(curve.norms.mean(1) <= 0.1))
    assert curve.evaluations[first] == needed
    assert curve.norms[first - 1].mean() > 0.1
    assert curve.evaluations[-1] >= 2 * needed - 3  # it continues, for the bootstrap
    assert math.isnan(walk(candidate.begin, problem, 1e-9, 3, 0, Limits(5)).reached(1e-9)[0])


def test_a_method_with_two_points_counts_the_evaluations_of_both():
    problem = DoubleWell(2)
    candidate = optimizer_candidate(rivals.STORM, {"lr": 0.1}, (7,))
    curve = walk(candidate.begin, problem, 1e-9, 2, 0, Limits(3))
    batch = curve.evaluations[0]
    assert list(curve.evaluations) == [batch, 3 * batch, 5 * batch]  # one point at first, then two


def test_two_processes_measure_what_one_does():
    cases = [Case("double-well", "sgd", e, runs=4, max_steps=100) for e in (0.3, 0.4)]
    one, two = (list(in_processes(measure, cases, workers)) for workers in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert (a.case, a.settings) == (b.case, b.settings)
        assert np.array_equal(a.curve.norms, b.curve.norms)


def test_the_noise_of_z_settles_at_the_value_of_the_theory():
    """A moving average of independent noise has β/(2 − β) of its variance. A step this short adds no bias."""
    found = on_double_well(400, 400, lr=1e-3, beta=0.1, extrapolate=True)
    last = np.mean(found["z_error2"][-5:])
    assert last == pytest.approx(0.1 / 1.9, rel=0.1)  # 2,000 errors, where neighbours are correlated
    assert np.mean(found["g_error2"][-5:]) == pytest.approx(1.0, rel=0.1)


def test_the_noise_of_g_is_level_until_it_falls_for_good():
    series = {"steps": [0, 3, 9, 27, 81], "g_error2": [1.0, 0.9, 2.0, 0.5, 0.1]}
    assert level(series) == 9  # the dip at step 3 does not count
    assert level({**series, "g_error2": [1.0, 1.1, 1.0, 0.9, 1.0]}) == 81
