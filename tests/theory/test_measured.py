"""Tests of the theorems' bounds against measurements on a problem with known constants."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adamplus import AdamPlus
from adamplus.theory import Settings, lemma1, lemma3, nigt, theorem1, theorem2, theorem3
from adamplus.theory.problems import DoubleWell


def measure(problem: DoubleWell, settings: Settings, w0: Tensor, steps: int | None = None) -> tuple[float, float]:
    """Mean of ‖∇F(w_t)‖^power over runs and steps, and mean of Σ‖z‖ over runs, measured with AdamPlus."""
    generator = torch.Generator().manual_seed(0)
    ws = [nn.Parameter(w.clone()) for w in w0]
    optimizers = [AdamPlus([w], **settings.optimizer()) for w in ws]
    total, steps = 0.0, steps or settings.T
    for t in range(steps):
        offsets = [optimizer.state.get(w) for w, optimizer in zip(ws, optimizers, strict=True)]
        points = torch.stack(
            [w.detach() + (s["offset"] * s["z"] if s else 0) for w, s in zip(ws, offsets, strict=True)]
        )
        total += float(problem.gradient(points).norm(dim=1).pow(settings.power).mean())
        at = torch.stack([w.detach() for w in ws])
        gradient = problem.sample(at, settings.initial_batch if t == 0 else settings.batch, generator)[0]
        for w, g, optimizer in zip(ws, gradient, optimizers, strict=True):
            w.grad = g
            optimizer.step()
    return total / steps, sum(optimizer.stats().norm_sum for optimizer in optimizers) / len(ws)


@pytest.fixture(scope="module")
def problem() -> DoubleWell:
    return DoubleWell(4, sigma=0.3)


@pytest.fixture(scope="module")
def w0(problem: DoubleWell) -> Tensor:
    return problem.start(4, torch.Generator().manual_seed(3))


def test_the_gradient_is_below_theorem_1(problem: DoubleWell, w0: Tensor):
    for b in (0.25, 0.5):
        settings = theorem1(
            600, problem.L, problem.L_H, problem.G, problem.gap(w0), problem.sigma, b, initial_batch=8, batch=2
        )
        measured, norm_sum = measure(problem, settings, w0)
        assert measured <= settings.bound(norm_sum=norm_sum)
        assert settings.violations == ()


def test_the_gradient_is_below_theorem_3(problem: DoubleWell, w0: Tensor):
    settings = theorem3(1.0, problem.L, problem.L_H, problem.gap(w0), problem.sigma, check=True)
    measured, _ = measure(problem, settings, w0)
    assert measured <= settings.bound() <= 1.0


def test_the_gradient_is_below_theorem_2_and_nigt(problem: DoubleWell, w0: Tensor):
    for theorem in (theorem2, nigt):
        settings = theorem(300, problem.L, problem.L_H, problem.gap(w0), problem.sigma)
        measured, _ = measure(problem, settings, w0)
        assert measured <= settings.bound()


def test_theorem_3_fails_for_tiny_steps_as_printed_and_holds_as_repaired():
    """The printed bound does not depend on α, but a run that hardly moves keeps its initial gradient."""
    problem = DoubleWell(4, sigma=0.0)
    w0 = torch.full((1, 4), 3.0, dtype=torch.float64)
    options: dict[str, Any] = {"beta_constant": 0.25, "lr": 1e-9}
    printed = theorem3(1.0, problem.L, problem.L_H, problem.gap(w0), 0.0, **options, check=True)
    measured, _ = measure(problem, printed, w0, steps=5)  # it stays so: all steps together are shorter than 1e-5
    assert printed.lr * printed.T < 1e-5
    assert measured > printed.bound()
    repaired = theorem3(1.0, problem.L, problem.L_H, problem.gap(w0), 0.0, **options, repaired=True)
    assert measured <= repaired.bound(printed.T)


@pytest.mark.parametrize("beta", [0.1, 0.5])
@pytest.mark.parametrize(("lr", "power"), [(0.05, 0.5), (1.0, 0.5), (0.3, 1.0)])
def test_the_error_of_z_is_within_lemmas_1_and_3(beta: float, lr: float, power: float):
    """Compares both δ of the proofs at every step of 500 runs, with Algorithm 1 written out for their sequences."""
    problem, batch, runs = DoubleWell(3, sigma=0.5), 2, 500
    generator = torch.Generator().manual_seed(0)
    w = w_hat = problem.start(runs, generator)
    w_hats, noises = [], []
    z, error, error32, moved = torch.zeros_like(w), None, 0.0, torch.zeros(runs)
    for t in range(25):
        g = problem.sample(w_hat, batch, generator)[0]
        z = g if t == 0 else (1 - beta) * z + beta * g
        w_hats.append(w_hat)
        noises.append(g - problem.gradient(w_hat))
        ages = torch.arange(t, -1, -1)
        weights = torch.where(ages == t, 1.0, beta).double() * (1 - beta) ** ages
        distances = torch.stack([(w - at).norm(dim=1) for at in w_hats])
        m, q = weights @ distances.square(), weights @ distances
        n = torch.einsum("k,krd->rd", weights, torch.stack(noises))
        delta2 = 2 * problem.L_H**2 * (m + 4 * q**2) ** 2 + 2 * n.square().sum(1)

        delta32 = 2 * (problem.L_H * (m + 4 * q**2)) ** 1.5 + 2 * n.norm(dim=1) ** 1.5

        off = (z - problem.gradient(w)).norm(dim=1)
        assert bool((off <= delta2.sqrt() * (1 + 1e-12)).all())
        assert bool((off**1.5 <= delta32 * (1 + 1e-12)).all())
        if error is not None:  # the mean of 500 runs estimates the expectation
            known = (beta, problem.L_H, problem.sigma, batch)
            assert float(delta2.mean()) <= lemma1(error, float(moved.pow(4).mean()), *known) * 1.05
            assert float(delta32.mean()) <= lemma3(error32, float(moved.pow(3).mean()), *known) * 1.05
        eta = lr * beta / z.norm(dim=1, keepdim=True).pow(power)
        w_next = w - eta * z
        error, error32, moved = float(delta2.mean()), float(delta32.mean()), (w_next - w).norm(dim=1)
        w_hat = (1 - 1 / beta) * w + w_next / beta
        w = w_next
