"""Tests of theorems as text and as runs: the settings that are printed, and the evaluations that are proved."""

from typing import Any

import pytest

from adamplus import theory
from adamplus.lab.errors import InputError
from adamplus.lab.measured_theory.theorems import PROVED, theorem_settings
from adamplus.theory.problems import DoubleWell

KNOWN: dict[str, Any] = {"L": 1.0, "L_H": 1.0, "Delta": 1.0, "sigma": 1.0}


def test_what_is_called_proved_has_the_repaired_constants():
    problem, epsilon, gap = DoubleWell(10), 0.03, 2.0
    known: tuple[float, ...] = (problem.L, problem.L_H, gap, problem.sigma)
    with_g: tuple[float, ...] = (problem.L, problem.L_H, problem.G, gap, problem.sigma)
    for name, theorem, constants in (("theorem-3", theory.theorem3, known), ("fast", theory.fast_rate, with_g)):
        printed, repaired = (theorem(epsilon, *constants, repaired=on).evaluations for on in (False, True))
        assert PROVED[name].make(problem, epsilon, gap)[1] == repaired > 10 * printed


def test_the_second_conclusion_of_theorem_2_is_printed():
    settings = theory.theorem2(100, **KNOWN)
    text = theorem_settings("2", {"T": 100, **KNOWN}, norm_sum=None, repaired=False)
    assert f"(1/T) Σ E‖z_t − ∇F(w_t)‖^1.5 ≤ {settings.error_bound():.4g}" in text
    assert "z_t" not in theorem_settings("3", {"epsilon": 0.5, **KNOWN}, norm_sum=None, repaired=False)


def test_theorems_1_and_2_are_printed_for_a_given_accuracy():
    given = {"epsilon": 0.1, "growth": 0.5, "G": 2.0, **KNOWN}
    text = theorem_settings("remark", given, norm_sum=12_000, repaired=False)
    assert "T, steps          144,000,000" in text
    assert "T₀, first batch   12,000" in text
    assert "(1/T) Σ E‖∇F(w_t)‖² ≤ 0.002667" in text
    with pytest.raises(InputError, match="theorem remark also needs --growth"):
        theorem_settings("remark", given | {"growth": None}, norm_sum=None, repaired=False)
    assert "holds: the bound ≤ ε^1.5" in theorem_settings(
        "lemma4", {"epsilon": 0.5, **KNOWN}, norm_sum=None, repaired=True
    )
