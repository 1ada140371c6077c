"""Tests of the problems: gradients match values, and no pair of points exceeds the constants."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from adamplus.theory.problems import DoubleWell, Logistic, Network, Problem, Valley

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "double well": lambda **other: DoubleWell(3, 0.7, **other),
    "deep double well": lambda **other: DoubleWell(2, 0.7, depth=5.0, wave=3.0, **other),
    "additive noise": lambda **other: DoubleWell(3, 0.7, wave=0.0, **other),
    "valley": lambda **other: Valley(0.2, 4, 0.7, **other),
    "narrow valley": lambda **other: Valley(0.02, 4, 0.7, **other),
    "logistic": lambda **other: Logistic(**other),
    "network": lambda **other: Network(hidden=3, **other),
}
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
PROVED = [name for name in PROBLEMS if name != "network"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(problem: Problem, count: int, seed: int = 0) -> Tensor:
    """Points near and far: a tenth of the width of the wells, the width, and three times the width."""
    w = torch.randn(count, problem.dim, generator=generator(seed), dtype=problem.dtype)
    return w * torch.tensor([0.1, 1.0, 3.0]).repeat(count)[:count, None]


def hessians(problem: Problem, w: Tensor) -> Tensor:
    return torch.func.vmap(torch.func.hessian(lambda point: problem.value(point[None])[0]))(w)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gradient_is_that_of_the_value(name: str):
    problem = PROBLEMS[name]()
    w = points(problem, 6)
    for sample in (None, problem.draw(6, 5, generator(1))):
        there = w.clone().requires_grad_()
        (expected,) = torch.autograd.grad(problem.value(there, sample).sum(), there)
        torch.testing.assert_close(problem.gradient(w, sample), expected)


@pytest.mark.parametrize("name", PROVED)
def test_no_pair_of_points_exceeds_the_constants(name: str):
    problem = PROBLEMS[name]()
    a, b = points(problem, 300), points(problem, 300, seed=1)
    b[::2] = a[::2] + 1e-3 * b[::2]  # neighbours, whose ratios are close to the derivative
    distance = (a - b).norm(dim=1)
    assert float(((problem.gradient(a) - problem.gradient(b)).norm(dim=1) / distance).max()) <= problem.L
    turned = torch.linalg.matrix_norm(hessians(problem, a) - hessians(problem, b), 2)
    assert float((turned / distance).max()) <= problem.L_H
    assert float(problem.gradient(100 * a).norm(dim=1).max()) <= problem.G
    assert float(problem.gradient(a).norm(dim=1).max()) <= problem.G


def test_constants_of_the_double_well_are_attained():
    problem = DoubleWell(1, 1.0)
    x = torch.linspace(-5, 5, 20_001, dtype=torch.float64)[:, None]
    slope, bend = problem.gradient(x), hessians(problem, x).flatten()
    assert float(bend.abs().max()) == pytest.approx(problem.L, rel=2e-6)
    third = (bend[1:] - bend[:-1]).abs().max() / (x[1] - x[0])
    assert float(third) == pytest.approx(problem.L_H, rel=1e-4)  # differences over 5e-4
    assert float(slope.abs().max()) <= problem.G
    assert float(problem.value(x).min()) == pytest.approx(problem.minimum, rel=2e-6)


@pytest.mark.parametrize("epsilon", [0.2, 0.02])
def test_the_valley_starts_one_gap_above_its_minimum_with_a_gradient_near_twice_epsilon(epsilon: float):
    problem = Valley(epsilon, 4)
    start = problem.start(2)
    assert problem.gap(start) == pytest.approx(1.0)  # Δ, for every ε
    assert float(problem.gradient(start).norm(dim=1)[0]) == pytest.approx(2 * epsilon, rel=0.2)


@pytest.mark.parametrize(("row", "penalty"), [(2.0, 0.0), (0.0, 0.3)])
def test_constants_of_the_logistic_regression_are_attained_by_each_part(row: float, penalty: float):
    problem = Logistic(torch.tensor([[row]]), torch.ones(1), penalty=penalty)
    x = torch.linspace(-5, 5, 20_001, dtype=torch.float64)[:, None]
    slope, bend = problem.gradient(x), hessians(problem, x).flatten()
    third = (bend[1:] - bend[:-1]).abs().max() / (x[1] - x[0])
    assert float(slope.abs().max()) == pytest.approx(problem.G, rel=1e-4)
    assert float(bend.abs().max()) == pytest.approx(problem.L, rel=1e-4)
    assert float(third) == pytest.approx(problem.L_H, rel=1e-4)


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_value_is_below_the_minimum(name: str):
    problem = PROBLEMS[name]()
    w = points(problem, 50)
    assert float(problem.value(w).min()) >= problem.minimum
    assert problem.gap(w) == pytest.approx(float(problem.value(w).max()) - problem.minimum)


@pytest.mark.parametrize("name", PROVED)
@pytest.mark.parametrize("batch", [1, 4])
def test_noise_has_mean_zero_and_at_most_the_stated_variance(name: str, batch: int):
    problem = PROBLEMS[name]()
    runs = 20_000
    w = points(problem, 3)[1].expand(runs, -1)
    noise = problem.sample(w, batch, generator())[0] - problem.gradient(w)
    allowed = problem.sigma**2 / batch
    assert float(noise.square().sum(1).mean()) <= allowed * 1.05  # 20,000 squares: a standard error under 1.5 %
    assert float(noise.mean(0).norm()) <= 4 * (allowed / runs) ** 0.5


@pytest.mark.parametrize("problem", [DoubleWell(4, 0.7, wave=2.0), Valley(0.1, 4, 0.7)], ids=["double well", "valley"])
def test_noise_of_the_double_well_and_the_valley_has_the_same_variance_everywhere(problem: Problem):
    for w in points(problem, 3):
        at = w.expand(20_000, -1)
        noise = problem.sample(at, 3, generator())[0] - problem.gradient(at)
        assert float(noise.square().sum(1).mean()) == pytest.approx(0.49 / 3, rel=0.05)


@pytest.mark.parametrize("name", ["logistic", "network"])
def test_the_exact_variance_of_a_finite_sum_is_the_measured_one(name: str):
    problem: Any = PROBLEMS[name]()
    w = points(problem, 2)[1:]
    at = w.expand(20_000, -1)
    measured = (problem.sample(at, 1, generator())[0] - problem.gradient(at)).square().sum(1).mean()
    assert float(problem.variance(w)) == pytest.approx(float(measured), rel=0.1)
    assert float(problem.variance(w)) <= problem.sigma**2


@pytest.mark.parametrize("name", PROVED)
def test_gradients_of_one_sample_at_two_points_differ_at_most_by_the_smoothness(name: str):
    problem = PROBLEMS[name]()
    a = points(problem, 3)[1].expand(5000, -1)
    b = a + 0.1
    sample = problem.draw(5000, 1, generator())
    change = (problem.gradient(a, sample) - problem.gradient(b, sample)).square().sum(1).mean()
    assert float(change) <= (problem.smoothness * float((a[0] - b[0]).norm())) ** 2 * 1.05


def test_noise_that_is_the_same_at_all_points_leaves_differences_exact():
    problem = PROBLEMS["additive noise"]()
    a, b = points(problem, 4), points(problem, 4, seed=1)
    sample = problem.draw(4, 1, generator())
    difference = problem.gradient(a, sample) - problem.gradient(b, sample)
    torch.testing.assert_close(difference, problem.gradient(a) - problem.gradient(b))


def test_constants_of_the_network_are_marked_as_estimates_and_hold_near_its_start():
    problem = PROBLEMS["network"]()
    assert not problem.exact
    assert all(PROBLEMS[name]().exact for name in PROVED)
    a, b = problem.start(20, generator(5)), problem.start(20, generator(6))
    ratios = (problem.gradient(a) - problem.gradient(b)).norm(dim=1) / (a - b).norm(dim=1)
    assert float(ratios.max()) <= problem.L


@pytest.mark.parametrize("name", PROBLEMS)
def test_runs_do_not_depend_on_each_other(name: str):
    problem = PROBLEMS[name]()
    w = points(problem, 5)
    sample = problem.draw(5, 3, generator())
    other = w.clone()
    other[0] += 1
    torch.testing.assert_close(problem.gradient(w, sample)[1:], problem.gradient(other, sample)[1:])
    assert problem.start(5, generator()).shape == w.shape


@pytest.mark.parametrize("name", PROBLEMS)
def test_batched_runs_equal_vmap_of_one_run(name: str):
    problem = PROBLEMS[name]()
    w, sample = points(problem, 5), problem.draw(5, 3, generator())

    def value(point: Tensor, drawn: Any) -> Tensor:
        alone = tuple(part[None] for part in drawn) if isinstance(drawn, tuple) else drawn[None]
        return problem.value(point[None], alone)[0]

    values, gradients = torch.func.vmap(value)(w, sample), torch.func.vmap(torch.func.grad(value))(w, sample)
    torch.testing.assert_close(problem.value(w, sample), values)
    torch.testing.assert_close(problem.gradient(w, sample), gradients)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("device", DEVICES)
def test_all_tensors_have_the_requested_dtype_and_device(name: str, dtype: torch.dtype, device: str):
    problem = PROBLEMS[name](dtype=dtype, device=device)
    w = problem.start(2, generator())
    gradient, sample = problem.sample(w, 3, generator())
    found = [w, gradient, problem.value(w, sample)]
    assert {tensor.dtype for tensor in found} == {dtype}
    assert {tensor.device.type for tensor in found} == {device}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DoubleWell(0), "dim must be at least 1, got 0"),
        (lambda: DoubleWell(depth=1.0), "depth must be more than 1, got 1.0"),
        (lambda: DoubleWell(sigma=-1.0), "sigma and wave must be finite and at least 0, got -1.0"),
        (lambda: Valley(0.0), "epsilon and gap must be finite and above 0, got 0.0 and 1.0"),
        (lambda: Logistic(torch.ones(3, 2), torch.zeros(3)), r"\+1 and −1"),
        (lambda: Logistic(penalty=-0.1), "penalty must be finite and at least 0, got -0.1"),
        (lambda: Network(torch.ones(3, 2), torch.ones(2)), r"got \(3, 2\) and \(2,\)"),
        (lambda: Network(hidden=0), "hidden and points must be at least 1"),
    ],
)
def test_invalid_arguments_of_problems_are_refused(call: Callable[[], Problem], message: str):
    with pytest.raises(ValueError, match=message):
        call()
