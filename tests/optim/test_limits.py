"""Settings under which Adam⁺ is a well-known method."""

import pytest
import torch
from cases import EXECUTIONS, difference
from torch import nn

from adamplus import NIGT, AdamPlus, NAdamPlus


def noise(steps: int = 60, size: int = 5) -> torch.Tensor:
    return torch.randn(steps, size, dtype=torch.float64)


def gradient(w: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return w.detach() - torch.sin(3 * w.detach()) + n


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_beta_1_is_sgd_with_an_adaptive_step_and_one_point(execution: str):
    p = nn.Parameter(torch.ones(5, dtype=torch.float64))
    w = p.detach().clone()
    optimizer = AdamPlus([p], lr=0.1, beta=1.0, **EXECUTIONS[execution])
    for n in noise():
        p.grad = gradient(p, n)
        g = gradient(w, n)
        w = w - 0.1 / g.norm().sqrt() * g
        optimizer.step()
        assert difference([p.detach()], [w]) <= 1e-13
        with optimizer.averaged():
            assert difference([p.detach()], [w]) <= 1e-13


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_norm_power_0_is_sgd_on_w_hat_with_w_its_moving_average(execution: str):
    lr, beta = 0.05, 0.2
    p, q = (nn.Parameter(torch.ones(5, dtype=torch.float64)) for _ in range(2))
    optimizer = AdamPlus([p], lr=lr, beta=beta, norm_power=0.0, **EXECUTIONS[execution])
    # ŵ_{t+1} = ŵ_t − η g_t with η = lr β; only the first step, where z_0 = g_0, is longer: by 1/β.
    sgd = torch.optim.SGD([q], lr=lr * beta)
    average = q.detach().clone()
    for t, n in enumerate(noise()):
        p.grad, q.grad = gradient(p, n), gradient(q, n)
        sgd.param_groups[0]["lr"] = lr if t == 0 else lr * beta
        optimizer.step()
        sgd.step()
        average = (1 - beta) * average + beta * q.detach()
        assert difference([p.detach()], [q.detach()]) <= 1e-12
        with optimizer.averaged():
            assert difference([p.detach()], [average]) <= 1e-12


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_nigt_is_adam_plus_with_norm_power_1_and_the_matching_lr(execution: str):
    p, q = (nn.Parameter(torch.ones(5, dtype=torch.float64)) for _ in range(2))
    nigt = NIGT([p], lr=0.03, momentum=0.9, **EXECUTIONS[execution])
    beta = nigt.param_groups[0]["beta"]
    adam_plus = AdamPlus([q], lr=0.03 / beta, beta=beta, norm_power=1.0, **EXECUTIONS[execution])
    for n in noise():
        p.grad, q.grad = gradient(p, n), gradient(q, n)
        nigt.step()
        adam_plus.step()
        assert difference([p.detach()], [q.detach()]) <= 1e-12


def test_nigt_steps_have_length_lr():
    p = nn.Parameter(torch.ones(5, dtype=torch.float64))
    optimizer = NIGT([p], lr=0.03)
    before = p.detach().clone()
    for n in noise():
        p.grad = gradient(p, n)
        optimizer.step()
        with optimizer.averaged():
            assert float((p - before).detach().norm()) == pytest.approx(0.03, rel=1e-12)
            before = p.detach().clone()


def test_nigt_keeps_momentum_as_beta():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = NIGT([{"params": [a], "momentum": 0.75}, {"params": [b], "beta": 0.5}], momentum=torch.tensor(0.5))
    assert [float(group["beta"]) for group in optimizer.param_groups] == [0.25, 0.5]
    assert "momentum" not in optimizer.param_groups[0]


def test_nadam_plus_is_adam_plus_with_the_powers_of_theorem_3():
    p, q = (nn.Parameter(torch.ones(5, dtype=torch.float64)) for _ in range(2))
    one, two = NAdamPlus([p], lr=1.0), AdamPlus([q], beta_power=4 / 3, norm_power=2 / 3)
    for n in noise():
        p.grad, q.grad = gradient(p, n), gradient(q, n)
        one.step()
        two.step()
    assert torch.equal(p, q)


def test_w_is_the_moving_average_of_w_hat():
    """w_{t+1} = (1 − β) w_t + β ŵ_{t+1}, whatever the step sizes (DESIGN §1)."""
    p = nn.Parameter(torch.ones(5, dtype=torch.float64))
    optimizer = AdamPlus([p], beta=0.3)
    average = p.detach().clone()
    for n in noise():
        p.grad = gradient(p, n)
        optimizer.step()
        average = 0.7 * average + 0.3 * p.detach()
        with optimizer.averaged():
            assert difference([p.detach()], [average]) <= 1e-12
