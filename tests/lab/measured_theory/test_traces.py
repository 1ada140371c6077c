"""Tests of walks of all candidates at once: curves against loops of their own, and which candidates continue."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from adamplus import AdamPlusReference
from adamplus.lab.measured_theory import cases
from adamplus.lab.measured_theory._methods import BLOCK, Sampler, rules
from adamplus.lab.measured_theory.cases import CRITERIA, Case
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


def test_a_candidate_on_the_floor_of_the_valley_is_not_given_up():
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
