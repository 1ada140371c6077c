"""Tests of the theorems: bounds calculated by hand, violated conditions, and settings that AdamPlus accepts."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import adamplus
from adamplus.theory import ConditionWarning, Settings, fast_rate, lemma1, nigt, theorem1, theorem2, theorem3

PROBLEM: dict[str, Any] = {"L": 2.0, "L_H": 3.0, "Delta": 5.0, "sigma": 0.5}
ALL: dict[str, Callable[..., Settings]] = {
    "theorem1": lambda **other: theorem1(1000, G=4.0, **PROBLEM, **other),
    "theorem2": lambda **other: theorem2(1000, **PROBLEM, **other),
    "theorem3": lambda **other: theorem3(0.1, **PROBLEM, **other),
    "fast_rate": lambda **other: fast_rate(0.1, G=4.0, **PROBLEM, **other),
    "nigt": lambda **other: nigt(1000, **PROBLEM, **other),
}
CONDITIONAL = [name for name in ALL if name != "nigt"]


@pytest.mark.parametrize("name", ALL)
def test_adam_plus_accepts_the_settings(name: str):
    settings = ALL[name]()
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = adamplus.AdamPlus([w], **settings.optimizer())
    w.grad = torch.ones(3)
    optimizer.step()
    eta = settings.lr * settings.beta**settings.beta_power / max(3 ** (settings.norm_power / 2), settings.eps)
    assert optimizer.stats().eta == pytest.approx(eta, rel=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_default_settings_violate_no_condition(name: str):
    assert ALL[name]().violations == ()


@pytest.mark.parametrize("name", ALL)
def test_settings_cannot_be_changed(name: str):
    with pytest.raises(dataclasses.FrozenInstanceError):
        ALL[name]().lr = 1.0  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", CONDITIONAL)
def test_a_rate_too_large_for_the_theorem_warns_and_with_check_raises(name: str):
    with pytest.warns(ConditionWarning, match="α ≤"):
        settings = ALL[name](lr=0.6)
    assert settings.lr == 0.6
    assert any(statement.startswith("α ≤") for statement in settings.violations)
    with pytest.raises(ValueError, match=r"does not hold.*leave out `lr`"):
        ALL[name](lr=0.6, check=True)


@pytest.mark.parametrize("name", CONDITIONAL)
def test_the_largest_rate_is_at_one_of_the_limits(name: str):
    lr = ALL[name]().lr
    assert ALL[name](lr=lr).violations == ()
    with pytest.warns(ConditionWarning):
        ALL[name](lr=lr * 1.0001)


def test_the_bound_of_theorem_1_by_hand():
    settings = theorem1(10_000, L=0.1, L_H=0, G=3, Delta=2, sigma=2, b=0.25, initial_batch=5, batch=4)
    assert (settings.lr, settings.beta, settings.eps) == (2.5, 0.1, 0.1)
    # 3 · 50 / 10⁴ + 2 / (2.5 · 10⁴) + 18 · 4 / (10³ · 5) + 30 · 4 / (4 · 10)
    assert settings.bound(norm_sum=50) == pytest.approx(0.015 + 0.00008 + 0.0144 + 3.0)
    assert settings.gradient_norm(norm_sum=50) == pytest.approx(3.02948**0.5)
    assert settings.evaluations == 5 + 9999 * 4
    repaired = theorem1(10_000, L=0.1, L_H=0, G=3, Delta=2, sigma=2, b=0.25, initial_batch=5, batch=4, repaired=True)
    assert repaired.bound(norm_sum=50) == pytest.approx(0.12 + 0.00008 + 0.0176 + 3.0)
    # T = 16: β = 1/2, so 3 · 1 / 16 + 2 / 40 + 72 / (8 · 5) + 120 / 8
    assert settings.bound(16, norm_sum=1) == pytest.approx(0.1875 + 0.05 + 1.8 + 15)


def test_the_rate_of_theorem_1_by_hand():
    # 36 · 1944 · L_H² = 69984 · 9 and its fourth root; 1/(4L) = 1/8 is larger
    assert ALL["theorem1"]().lr == pytest.approx(1 / (69984 * 9) ** 0.25)
    assert theorem1(10, L=100, L_H=3, G=1, Delta=1, sigma=1).lr == 1 / 400


def test_the_bound_of_theorem_2_by_hand():
    # α = (1/76800)^(1/3) as L_H = 1; T = 10⁶, β = 10⁻⁴; σ₀ = 16/√16 = 4 and σ_m = 16/√256 = 1
    settings = theorem2(10**6, L=4, L_H=1, Delta=2, sigma=16, initial_batch=16, batch=256)
    alpha = 76800 ** (-1 / 3)
    expected = 202 / (alpha * 100) + 2727 * 2 * 8 / 100 + 4545 * 0.01 * 1 + 3e-12 * 8 / 100
    assert settings.lr == pytest.approx(alpha)
    assert settings.beta == pytest.approx(1e-4)
    assert settings.bound() == pytest.approx(expected)
    assert (settings.eps, settings.power) == (0.0, 1.5)


def test_the_last_term_of_theorem_2_as_printed_and_as_proved():
    quiet: dict[str, Any] = {"L": 4.0, "L_H": 1.0, "Delta": 0.0, "sigma": 0.0}
    beta, alpha = 8 ** (-2 / 3), 76800 ** (-1 / 3)
    assert theorem2(8, **quiet).bound() == pytest.approx(3 * beta**3 * 8 / 100)
    assert theorem2(8, **quiet, repaired=True).bound() == pytest.approx(2155 * (alpha * beta * 4) ** 3)


def test_the_bound_of_theorem_3_by_hand():
    # β = 1/8: β^(4/3) = 1/16, β^(7/3) = 1/128, β^(1/3) = 1/2, β^(8/3) = 1/256; T₀ = 8, m = 512; T = 1600
    with pytest.warns(ConditionWarning, match="the bound ≤"):
        settings = theorem3(0.25, L=2, L_H=0, Delta=3, sigma=4, beta_constant=0.25, T_constant=100)
    assert (settings.beta, settings.initial_batch, settings.batch, settings.T) == (0.125, 8, 512, 1600)
    assert (settings.lr, settings.eps) == (0.5, pytest.approx(0.125))
    expected = 12 * 2 * 3 * 16 / 1600 + 14 * 16 * 128 / (8 * 1600) + 28 * 16 * 2 / 512 + 4 / 256
    assert settings.bound() == pytest.approx(expected)
    assert settings.evaluations == 8 + 1599 * 512
    with pytest.warns(ConditionWarning):
        repaired = theorem3(0.25, L=2, L_H=0, Delta=3, sigma=4, beta_constant=0.25, T_constant=100, repaired=True)
    expected = 24 * 3 / 0.5 * 16 / 1600 + 28 * 16 * 128 / (8 * 1600) + 28 * 16 * 2 / 512 + 4 / 256
    assert repaired.bound() == pytest.approx(expected)


def test_the_bound_of_the_appendix_by_hand():
    # ε = 2⁻⁸: β = 2⁻³, T₀ = 8, m = 2^13, T = 2^16 / 16
    with pytest.warns(ConditionWarning, match="the bound ≤"):
        settings = fast_rate(
            2.0**-8, L=2, L_H=0, G=1, Delta=3, sigma=4, beta_constant=1, T_constant=1 / 16, batch_constant=1
        )
    assert (settings.beta, settings.initial_batch, settings.batch, settings.T) == (0.125, 8, 8192, 4096)
    expected = 12 * 2 * 3 * 16 / 4096 + 14 * 16 * 128 / (8 * 4096) + 28 * 16 * 2 / 8192 + 4 / 4096
    assert settings.bound() == pytest.approx(expected)
    assert fast_rate(0.1, L=1, L_H=2, G=16, Delta=1, sigma=1).lr == pytest.approx((14 * 1944 * 4 * 4) ** -0.25)


def test_the_bound_of_nigt_by_hand():
    # T = 128: T^(4/7) = 16, T^(5/7) = 32; β = 1/16, h = 1/32 against (1/128)^(1/2)
    settings = nigt(128, L=1, L_H=1, Delta=1, sigma=2, initial_batch=16, batch=4)
    assert settings.beta == pytest.approx(1 / 16)
    assert settings.lr * settings.beta**1.25 == pytest.approx(1 / 32)
    expected = 3 * 32 / 128 + 8 * (0.5 * 16 / 128 + 0.25 + 16**2 / (2 * 32**2)) + 1.5 / 32
    assert settings.bound() == pytest.approx(expected)


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 1e-3])
@pytest.mark.parametrize("sigma", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("repaired", [False, True])
def test_default_constants_reach_the_target_accuracy(epsilon: float, sigma: float, repaired: bool):
    for settings in (
        theorem3(epsilon, L=2, L_H=3, Delta=5, sigma=sigma, repaired=repaired),
        fast_rate(epsilon, L=2, L_H=3, G=4, Delta=5, sigma=sigma, repaired=repaired),
    ):
        assert settings.gradient_norm() <= epsilon


@pytest.mark.parametrize(("name", "proved"), [("theorem3", -3.5), ("fast_rate", -3.625)])
def test_evaluations_grow_as_the_theorem_says(name: str, proved: float):
    theorem: Callable[..., Settings] = {"theorem3": theorem3, "fast_rate": fast_rate}[name]
    other: dict[str, Any] = {"G": 1.0} if name == "fast_rate" else {}
    few, many = (theorem(epsilon, L=1, L_H=1, Delta=1, sigma=1, **other) for epsilon in (1e-4, 1e-6))
    slope = math.log(many.evaluations / few.evaluations) / math.log(1e-6 / 1e-4)
    assert slope == pytest.approx(proved, abs=0.01)  # whole numbers of samples


@pytest.mark.parametrize(("name", "proved"), [("theorem2", -1 / 4.5), ("nigt", -1 / 3.5)])
def test_bounds_shrink_as_the_theorem_says(name: str, proved: float):
    settings = ALL[name]()
    slope = math.log(settings.gradient_norm(10**26) / settings.gradient_norm(10**24)) / math.log(100)
    assert slope == pytest.approx(proved, abs=1e-3)


def test_lemma_1_by_hand():
    # (1 − 1/4) 8 + 2 · (1/4) · 9/3 + 1944 · 4 · 0.001 · 8
    assert lemma1(8, 0.001, beta=0.5, L_H=2, sigma=3, batch=3) == pytest.approx(6 + 1.5 + 62.208)


def test_the_error_of_theorem_1_names_the_argument_that_its_bound_needs():
    with pytest.raises(ValueError, match="pass norm_sum"):
        ALL["theorem1"]().bound()


def test_problems_without_curvature_have_settings():
    flat: dict[str, Any] = {"L": 0.0, "L_H": 0.0, "Delta": 1.0, "sigma": 0.0}
    for settings in (
        theorem1(10, G=1, **flat), theorem2(10, **flat), theorem3(0.1, **flat),
        fast_rate(0.1, G=1, **flat), nigt(10, **flat),
    ):  # fmt: skip
        assert 0 < settings.lr < math.inf
        assert 0 < settings.beta <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theorem1(0, 1, 1, 1, 1, 1), "T must be a whole number of at least 1, got 0"),
        (lambda: theorem1(10, -1, 1, 1, 1, 1), "L must be finite and at least 0, got -1"),
        (lambda: theorem1(10, 1, 1, 1, 1, 1, b=1.5), r"b must be in \[0, 1\], got 1.5"),
        (lambda: theorem1(10, 1, 1, 1, 1, 1, batch=0), "batch must be a whole number"),
        (lambda: theorem2(10, 1, 1, 1, 1, s=1.0), r"s must be in \(0, 1\), got 1.0"),
        (lambda: theorem2(10, 1, 1, 1, 1, lr=0.0), "lr must be finite and above 0, got 0.0"),
        (lambda: theorem3(0.0, 1, 1, 1, 1), "epsilon must be finite and above 0, got 0.0"),
        (lambda: fast_rate(0.1, 1, 1, math.inf, 1, 1), "G must be finite"),
        (lambda: nigt(10, 1, 1, 1, math.nan), "sigma must be finite"),
    ],
)
def test_an_invalid_setting_is_refused_with_its_name_and_value(call: Callable[[], Settings], message: str):
    with pytest.raises(ValueError, match=message):
        call()
