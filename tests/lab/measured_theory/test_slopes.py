"""Tests of slopes and their intervals on synthetic measurements whose slopes are known."""

import math

import numpy as np
import pytest

from adamplus.lab.measured_theory.cases import MARGIN
from adamplus.lab.measured_theory.search import Measured, Option, _result, _weights, choose
from adamplus.lab.measured_theory.slopes import Slope, slope, two_point_slopes
from adamplus.lab.measured_theory.walks import Curve

EPSILONS = [0.4, 0.1857, 0.08618, 0.04, 0.01857, 0.008618, 0.004]


def test_the_slope_of_a_power_is_its_exponent():
    found = slope(EPSILONS, [7 * e**-3.5 for e in EPSILONS], [0.0] * 7)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((3.5, 3.5, 3.5))


def test_two_point_slopes_are_between_neighbours_and_miss_what_was_not_reached():
    assert two_point_slopes([0.2, 0.1, 0.05], [10.0, 40.0, 320.0]) == pytest.approx([2.0, 3.0])
    assert two_point_slopes([0.2, 0.1, 0.05, 0.025], [10.0, None, 320.0, 640.0]) == [None, None, pytest.approx(1.0)]


def test_few_points_have_no_interval():
    assert slope([0.1], [5.0], [0.1]) is None
    found = slope([0.4, 0.2, 0.1], [5.0, 20.0, 80.0], [0.1] * 3)
    assert found is not None
    assert (found.value, found.half) == (pytest.approx(2.0), math.inf)
    assert not found.differs_from(Slope(9.0, 9.0, 9.0, 7))


def test_lack_of_fit_and_spread_both_widen_the_interval():
    """Hand-computed for x = −1, 0, 1, 2 shifted: Sxx = 5, t with 2 degrees of freedom is 4.3027."""
    epsilons = [math.exp(-x) for x in range(4)]
    bent = slope(epsilons, [math.exp(y) for y in (0, 1, 2, 4)], [0.0] * 4)
    assert bent is not None
    assert bent.value == pytest.approx(1.3)
    assert bent.half == pytest.approx(4.3027 * math.sqrt((0.3 / 2) / 5), rel=1e-4)  # residuals .2, −.1, −.4, .3
    noisy = slope(epsilons, [math.exp(y) for y in (0, 1, 2, 3)], [0.2, 0.1, 0.1, 0.2])
    assert noisy is not None
    variance = (2 * (1.5 * 0.2) ** 2 + 2 * (0.5 * 0.1) ** 2) / 25
    assert noisy.half == pytest.approx(4.3027 * math.sqrt(variance), rel=1e-4)


def synthetic(epsilon: float, exponent: float, factor: float, runs: int, random: np.random.Generator) -> Curve:
    """Runs whose ‖∇F‖ falls as (N/factor)^(−1/exponent), each with its own random multiple of mean 1."""
    evaluations = np.exp(np.linspace(math.log(0.2), math.log(6), 400)) * epsilon**-exponent
    multiples = random.gamma(10, 1 / 10, runs)
    return Curve(evaluations, (evaluations[:, None] / factor) ** (-1 / exponent) * multiples)


def measured_once(random: np.random.Generator) -> Slope:
    """Slope of a method that chooses among three settings on 8 runs and is measured on 32, as Table 1 does.

    Two of the settings are equally good, the third is 5 % worse, and a grid of settings makes all of them up to a
    factor of 2^(1/4) too slow at each ε.
    """
    evaluations, spreads = [], []
    for epsilon in EPSILONS:
        grid = 2 ** (random.uniform() / 4)
        factors = [grid, grid, 1.05 * grid]
        tuned = [synthetic(epsilon, 3.0, factor, 8, random) for factor in factors]
        tuning_weights, weights = _weights(8, random), _weights(32, random)
        options = [
            Option("last", 0, i, 0, curve, float(curve.reached(MARGIN * epsilon)[0])) for i, curve in enumerate(tuned)
        ]
        fresh = [
            Measured(synthetic(epsilon, 3.0, factor, 32, random), *(np.arange(400) for _ in range(3)))
            for factor in factors
        ]
        found = _result([fresh[i] for i in choose(options, epsilon, tuning_weights)], epsilon, weights)
        evaluations.append(found["evaluations"])
        spreads.append(found["spread"])
        assert found["interval"][0] <= found["evaluations"] <= found["interval"][1]
    fitted = slope(EPSILONS, evaluations, spreads)
    assert fitted is not None
    return fitted


def test_the_interval_covers_the_true_slope_and_is_no_wider_than_it_must_be():
    random = np.random.default_rng(0)
    found = [measured_once(random) for _ in range(100)]
    covered = sum(one.low <= 3.0 <= one.high for one in found)
    assert covered >= 90  # of 100 at 95 %: fewer than 90 has a probability of 1 %, and the interval is wider than that
    scatter = np.std([one.value for one in found])
    assert np.mean([one.half for one in found]) < 2 * 2.57 * scatter  # t with 5 degrees of freedom is 2.57


def test_the_grid_of_settings_widens_the_interval():
    """The grid alone moves two points by up to 19 %, which a bootstrap over runs cannot see."""
    epsilons = [0.4, 0.2, 0.1, 0.05, 0.025]
    noise = [1.0, 1.15, 1.0, 1.15, 1.0]
    counts = [e**-3 * factor for e, factor in zip(epsilons, noise, strict=True)]
    found = slope(epsilons, counts, [0.01] * 5)
    assert found is not None
    assert found.half > 5 * 1.96 * 0.01 / math.sqrt(10 * math.log(2) ** 2)
