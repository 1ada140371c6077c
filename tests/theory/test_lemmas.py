"""Tests of the lemmas, of what follows from them for a given accuracy, and of the repaired constants of Theorem 3."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from adamplus.theory import (
    ConditionWarning,
    Settings,
    adaptive_rate,
    fast_rate,
    growth_exponent,
    lemma1,
    lemma1_adaptive,
    lemma1_contraction,
    lemma2,
    lemma3,
    lemma4,
    theorem1,
    theorem2,
    theorem3,
    type1_growth,
    type2_growth,
)
from adamplus.theory.problems import DoubleWell, Problem, Valley

KNOWN: dict[str, Any] = {"L": 2.0, "L_H": 3.0, "Delta": 5.0, "sigma": 0.5}


class TestLemma1:
    def test_the_second_inequality_by_hand(self):
        # (1 − 1/4) 8 + 2 · (1/4) · 9/3 + 1944 · 4 · (1/2)⁴ · (1/2)^(4·1.5 − 3) · 0.01
        found = lemma1_adaptive(8, 0.01, lr=0.5, beta=0.5, L_H=2, sigma=3, batch=3, beta_power=1.5)
        assert found == pytest.approx(6 + 1.5 + 1944 * 4 / 16 / 8 * 0.01)

    def test_the_step_of_adam_plus_moves_no_further_than_the_second_inequality_says(self):
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(2000, 4, generator=generator, dtype=torch.float64) * torch.logspace(-4, 2, 2000)[:, None]
        for lr, beta, power, eps in ((0.3, 0.1, 1.0, 1e-8), (2.0, 0.7, 4 / 3, 0.5), (0.01, 1.0, 1.0, 10.0)):
            norms = z.norm(dim=1)
            movement = (lr * beta**power / norms.sqrt().clamp_min(eps) * norms).pow(4)
            for norm, moved in zip(norms.tolist(), movement.tolist(), strict=True):
                bound = lemma1_adaptive(1.0, norm**2, lr, beta, 2.0, 0.5, beta_power=power)
                assert lemma1(1.0, moved, beta, 2.0, 0.5) <= bound * (1 + 1e-12)

    def test_the_contraction_by_hand(self):
        # (1 − 1/8) 8 + 2 · (1/4) · 9/3 + c · 10, c = 2 · 1944 · 0.04 · 10⁻⁴ · (1/2)^1
        found = lemma1_contraction(8, 10, lr=0.1, beta=0.5, L_H=0.2, sigma=3, batch=3)
        assert found == pytest.approx(7 + 1.5 + 10 * 3888 * 0.04 * 1e-4 / 2)

    def test_the_contraction_follows_from_the_second_inequality(self):
        """‖z‖² is drawn from what δ and ∇F allow."""
        generator = torch.Generator().manual_seed(1)
        for _ in range(2000):
            delta2, gradient2, share, lr, beta = torch.rand(5, generator=generator, dtype=torch.float64).tolist()
            lr *= (8 * 1944 * 9) ** -0.25  # up to the largest that the remark allows
            norm2 = share * 2 * (delta2 + gradient2)
            known: dict[str, Any] = {"lr": lr, "beta": beta, "L_H": 3.0, "sigma": 0.2}
            assert lemma1_adaptive(delta2, norm2, **known) <= lemma1_contraction(delta2, gradient2, **known) + 1e-12

    def test_the_contraction_needs_small_steps(self):
        largest = (8 * 1944 * 9) ** -0.25
        lemma1_contraction(1, 1, lr=largest * 0.999, beta=0.3, L_H=3, sigma=1)
        with pytest.raises(ValueError, match=r"needs 2 C L_H² α⁴ β\^\(4a−3\) ≤ β/4, got"):
            lemma1_contraction(1, 1, lr=largest * 1.001, beta=0.3, L_H=3, sigma=1)
        with pytest.raises(ValueError, match="beta must be finite and above 0, got 0"):
            lemma1_contraction(1, 1, lr=0.1, beta=0, L_H=3, sigma=1)

    def test_with_a_constant_beta_the_contraction_ends_at_8_beta_sigma2(self):
        error = 1.0
        for _ in range(2000):
            error = lemma1_contraction(error, 0.0, lr=0.01, beta=0.1, L_H=1, sigma=2, batch=4)
        assert error == pytest.approx(8 * 0.1 * 4 / 4)


class TestLemma2:
    def test_the_descent_by_hand(self):
        # αβ = 1/8: (1/8) (9 · 8 − 27/6) + 64 · 8^−4 · 8 / 3
        assert lemma2(9, 4, lr=0.5, beta=0.25, L=2) == pytest.approx((72 - 4.5) / 8 + 64 * 8 / 3 / 8**4)

    @pytest.mark.parametrize("problem", [DoubleWell(3), Valley(0.1, 3)], ids=["double well", "valley"])
    @pytest.mark.parametrize("step", [0.01, 0.3, 5.0])
    def test_no_step_raises_the_function_by_more(self, problem: Problem, step: float):
        generator = torch.Generator().manual_seed(2)

        def draw() -> torch.Tensor:
            return torch.randn(20_000, 3, generator=generator, dtype=torch.float64)

        w, gradient = (at := 2 * draw()), problem.gradient(at)
        for z in (gradient + 0.3 * draw(), draw(), -gradient):
            eta = step / z.norm(dim=1, keepdim=True).sqrt()
            rise = problem.value(w - eta * z) - problem.value(w)
            norms = zip(gradient.norm(dim=1).tolist(), (z - gradient).norm(dim=1).tolist(), strict=True)
            bounds = torch.tensor([lemma2(g, e, lr=step, beta=1.0, L=problem.L) for g, e in norms]).double()
            assert bool((rise <= bounds + 1e-9).all())


class TestLemma3:
    def test_by_hand(self):
        # (1 − 1/8) 8 + 2 · (1/8) · (16/4)^(3/4) + 320 · 8 · 0.001 · 16
        assert lemma3(8, 0.001, beta=0.25, L_H=4, sigma=4, batch=4) == pytest.approx(7 + 0.25 * 4**0.75 + 40.96)


@pytest.mark.parametrize("lemma", [lemma1, lemma3])
@pytest.mark.parametrize("bad", [{"beta": 0.0}, {"batch": 0}, {"L_H": -1.0}, {"sigma": math.nan}])
def test_lemmas_refuse_constants_that_no_problem_has(lemma: Any, bad: dict[str, float]):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be finite"):
        lemma(**{"error": 1.0, "movement": 1.0, "beta": 0.5, "L_H": 1.0, "sigma": 1.0, **bad})


class TestTheSecondConclusionOfTheorem2:
    def test_by_hand(self):
        # T = 10⁶, β = 10⁻⁴; σ₀ = 16/√16 = 4 and σ_m = 16/√256 = 1: E δ₁^(3/2) ≤ 2 · 8
        settings = theorem2(10**6, L=4, L_H=1, Delta=2, sigma=16, initial_batch=16, batch=256)
        expected = 120 / 59 * (16 / 100 + 2 * 0.01) + settings.bound() / 59
        assert settings.error_bound() == pytest.approx(expected)
        assert settings.error_bound(8) == pytest.approx(
            120 / 59 * (16 / 2 + 2 * 8 ** (-1 / 3)) + settings.bound(8) / 59
        )

    def test_it_shrinks_at_the_rate_of_the_first(self):
        settings = theorem2(100, **KNOWN)
        slope = math.log(settings.error_bound(10**26) / settings.error_bound(10**24)) / math.log(100)
        assert slope == pytest.approx(-1.5 / 4.5, abs=1e-3)

    def test_other_theorems_do_not_bound_the_error(self):
        with pytest.raises(ValueError, match="Theorem 3 does not bound the error of z: use theorem2 or lemma4"):
            theorem3(0.1, **KNOWN).error_bound()


class TestLemma4:
    def test_the_bound_by_hand(self):
        # ε = 1/4: β = 16 ε³ = 1/4, T = 2 ε^−4.5 = 1024, β^(1/2) = 1/2; α = 76800^(−1/3) as L_H = 1
        with pytest.warns(ConditionWarning, match=r"the bound ≤ ε\^1.5"):
            settings = lemma4(0.25, L=4, L_H=1, Delta=2, sigma=4, batch=16, beta_constant=16, T_constant=2)
        alpha = 76800 ** (-1 / 3)
        expected = 202 / (alpha * 256) + 2727 * 2 * 8 / 256 + 4545 * 0.5 * 1 + 3 * 8 / 64 / 100
        assert (settings.beta, settings.T) == (0.25, 1024)
        assert settings.bound() == pytest.approx(expected)
        assert settings.error_bound() == pytest.approx(120 / 59 * (16 / 256 + 2 * 0.5) + expected / 59)

    @pytest.mark.parametrize("epsilon", [1.0, 0.1, 1e-3])
    @pytest.mark.parametrize("sigma", [0.0, 0.1, 10.0])
    @pytest.mark.parametrize("repaired", [False, True])
    def test_default_constants_reach_the_target_accuracy(self, epsilon: float, sigma: float, repaired: bool):
        settings = lemma4(epsilon, L=2, L_H=3, Delta=5, sigma=sigma, batch=2, repaired=repaired, check=True)
        assert settings.gradient_norm() <= epsilon * (1 + 1e-9)
        assert settings.error_bound() <= epsilon**1.5

    def test_steps_grow_as_the_lemma_says(self):
        few, many = (lemma4(epsilon, L=1, L_H=1, Delta=1, sigma=1).T for epsilon in (1e-2, 1e-4))
        assert math.log(many / few) / math.log(100) == pytest.approx(4.5, abs=1e-3)


class TestAdaptiveRate:
    def test_the_settings_of_the_remark_by_hand(self):
        # s = 3/4, b = 1/4; T = 16² ε^(−8) with ε = 1/2, so T = 2^16; T₀ = T^(1/4) = 16 and β = 1/16
        with pytest.warns(ConditionWarning, match="the bound ≤ ε²"):
            settings = adaptive_rate(0.5, 0.75, L=0.1, L_H=0, G=3, Delta=2, sigma=2, batch=4, T_constant=256)
        assert (settings.T, settings.initial_batch, settings.batch, settings.beta) == (65536, 16, 4, 1 / 16)
        # G c/T^(1/4) + Δ/(αT) + 18 · 4/T + 30 · 4/(4 · 16)
        expected = 3 / 16 + 2 / (2.5 * 65536) + 72 / 65536 + 120 / 64
        assert settings.bound(norm_sum=65536**0.75) == pytest.approx(expected)
        same = theorem1(65536, L=0.1, L_H=0, G=3, Delta=2, sigma=2, b=0.25, initial_batch=16, batch=4)
        assert settings.optimizer() == same.optimizer()

    @pytest.mark.parametrize("growth", [0.0, 0.3, 0.5, 0.8])
    @pytest.mark.parametrize("sigma", [0.0, 3.0])
    @pytest.mark.parametrize("repaired", [False, True])
    def test_default_constants_reach_the_target_accuracy(self, growth: float, sigma: float, repaired: bool):
        settings = adaptive_rate(
            0.1, growth, 2, 3, 4, 5, sigma, batch=2, growth_constant=7, repaired=repaired, check=True
        )
        largest = 7 * settings.T**growth
        assert settings.gradient_norm(norm_sum=largest) <= 0.1 * (1 + 1e-9)
        assert settings.bound(norm_sum=largest / 2) < settings.bound(norm_sum=largest)

    @pytest.mark.parametrize("growth", [0.0, 0.5, 0.75])
    def test_steps_and_first_batch_grow_as_the_remark_says(self, growth: float):
        few, many = (adaptive_rate(e, growth, 1, 1, 1, 1, 1) for e in (1e-2, 1e-4))
        slopes = [math.log(getattr(many, name) / getattr(few, name)) / math.log(100) for name in ("T", "initial_batch")]
        assert slopes == pytest.approx([2 / (1 - growth), 2], abs=1e-3)

    def test_fast_growth_is_refused(self):
        with pytest.raises(ValueError, match=r"growth must be in \[0, 1\), got 1"):
            adaptive_rate(0.1, 1, 1, 1, 1, 1, 1)


class TestGrowth:
    def test_both_types_by_hand_for_several_runs(self):
        steps = torch.tensor([[[3.0, 0.0], [1.0, 1.0]], [[4.0, 2.0], [1.0, 0.0]]])  # two steps of two runs
        assert type1_growth(steps).tolist() == [[3.0, 2.0], [7.0, pytest.approx(2**0.5 + 1)]]
        assert type2_growth(steps).tolist() == [
            [3.0, pytest.approx(2**0.5)],
            [pytest.approx(3 + 20**0.5), pytest.approx(2**0.5 + 1)],
        ]

    def test_steady_noise_grows_as_the_root_for_type_1_and_linearly_for_type_2(self):
        noise = torch.randn(4096, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        t = range(64, 4097, 64)
        exponents = [
            growth_exponent(list(t), [float(sums[i - 1]) for i in t])
            for sums in (type1_growth(noise), type2_growth(noise))
        ]
        assert exponents == pytest.approx([0.5, 1.0], abs=0.02)


REPAIRED: dict[str, tuple[float, float, float, float]] = {
    "theorem3": (4 / 3, 2 / 3, 1 / 3, 8 / 3),
    "fast_rate": (3 / 2, 3 / 4, 1 / 4, 4),
}
"""The power q of ‖∇F‖, the weights of δ²/β^a and β^(…) in k‖δ‖^q, and the power of β in the last term."""


def factors(name: str, k: float) -> tuple[float, list[float]]:
    """The factor of Σ‖z‖^q on the right of the repaired proof, and the four constants, if (a+b)^q ≤ k (a^q + b^q)."""
    _, of_error, of_beta, _ = REPAIRED[name]
    errors = 2 * (1 + k) + k * of_error
    return errors * 2 / 14, [8 * (1 + k), errors * 2 * 2, errors * 4, 1 + k + k * of_beta]


class TestRepairedConstants:
    def test_the_proof_closes_with_convexity_and_not_with_the_factor_2(self):
        closes = [factors(name, 2 ** (REPAIRED[name][0] - 1))[0] for name in REPAIRED]
        assert closes == pytest.approx([0.766, 0.841], abs=1e-3)
        assert [factors(name, 2)[0] for name in REPAIRED] == pytest.approx([22 / 21, 7.5 / 7])

    @pytest.mark.parametrize(("name", "known"), [("theorem3", {}), ("fast_rate", {"G": 1.0})])
    def test_the_constants_of_the_code_are_at_least_those_of_the_proof(self, name: str, known: dict[str, float]):
        theorem: Callable[..., Settings] = {"theorem3": theorem3, "fast_rate": fast_rate}[name]

        def bound(Delta: float, sigma: float, T: int) -> tuple[Settings, float]:
            settings = theorem(0.5, L=1, L_H=1, Delta=Delta, sigma=sigma, **known, repaired=True)
            return settings, settings.bound(T)

        _, needed = factors(name, 2 ** (REPAIRED[name][0] - 1))
        far = 10**30
        settings, still = bound(0, 0, 1)
        last = still / settings.beta ** REPAIRED[name][3]
        moved, value = bound(1, 0, 1)
        progress = (value - still) * moved.lr * moved.beta**moved.beta_power
        noisy, start = bound(0, 1, 1)
        floor = noisy.bound(far) - last * noisy.beta ** REPAIRED[name][3]
        later = floor * noisy.beta ** (1 / 3) * noisy.batch
        first = (start - noisy.bound(far)) * noisy.beta ** (7 / 3) * noisy.initial_batch
        assert [progress, first, later, last] == pytest.approx([24, 28, 28, 4])
        assert all(stated >= proved for stated, proved in zip((24, 28, 28, 4), needed, strict=True))

    @pytest.mark.parametrize("q", [4 / 3, 3 / 2])
    def test_the_inequalities_that_it_uses_hold(self, q: float):
        a, b, x = torch.rand(3, 100_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4
        k = 2 ** (q - 1)
        assert bool(((a + b) ** q <= k * (a**q + b**q) + 1e-12).all())
        assert float(((a + a) ** q / (a**q + a**q)).mean()) == pytest.approx(k)  # no smaller k would do
        powers = {4 / 3: a**2 / x * 2 / 3 + x**2 / 3, 3 / 2: a**2 / x * 3 / 4 + x**3 / 4}
        assert bool((a**q <= powers[q] + 1e-12).all())

    @pytest.mark.parametrize("p", [2 / 3, 1 / 2])
    def test_the_repaired_step_holds_and_the_printed_one_fails(self, p: float):
        """γ‖z‖² ≤ (4/α)(F(w_t) − F(w_{t+1})) + ‖z − ∇F‖² for any z; step (c) has 2L(…) + 2‖z − ∇F‖²."""
        problem, generator = DoubleWell(3), torch.Generator().manual_seed(3)
        w = 1.5 * torch.randn(50_000, 3, generator=generator, dtype=torch.float64)
        gradient = problem.gradient(w)
        z = gradient + 0.1 * torch.randn(50_000, 3, generator=generator, dtype=torch.float64)
        beta_a, failed = 0.1, 0
        for alpha in (1 / problem.L, 0.1 / problem.L):
            gamma = beta_a / z.norm(dim=1).pow(p).clamp_min(2 * beta_a)
            fall = problem.value(w) - problem.value(w - alpha * gamma[:, None] * z)
            error2, left = (z - gradient).square().sum(1), gamma * z.square().sum(1)
            assert bool((left <= 4 / alpha * fall + error2 + 1e-9).all())
            failed += int((left > 2 * problem.L * fall + 2 * error2 + 1e-9).sum())
        assert failed > 1000
