"""Stochastic rounding: small steps move bfloat16 parameters."""

from typing import Any

import pytest
import torch
from cases import through_a_file, values
from torch import nn

from adamplus import AdamPlus
from adamplus.optim._execution import PLAIN
from adamplus.optim._execution.rounding import salt, seeds, store

WAYS: dict[str, dict[str, Any]] = {
    "plain": {"foreach": False},
    "foreach": {"foreach": True},
    "capturable": {"capturable": True},
    "fused": {"fused": True},
}


def run(steps: int, stochastic: bool, dtype: torch.dtype = torch.bfloat16, **settings: Any) -> AdamPlus:
    """Take steps of 0.0004 from 1, a twentieth of a bfloat16's ulp."""
    p = nn.Parameter(torch.ones(1000).to(dtype))
    optimizer = AdamPlus([p], lr=4e-4, norm_power=0.0, beta=0.5, beta_power=0.0, **settings)
    optimizer.param_groups[0]["stochastic_rounding"] = stochastic
    for _ in range(steps):
        p.grad = torch.ones_like(p)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.uncovered  # shorter tests run the same lines
def test_small_steps_are_lost_without_stochastic_rounding_and_kept_with_it(way: str):
    exact = values(run(50, False, torch.float32))[0].mean()
    lost = values(run(50, False, **WAYS[way]))[0].float().mean()
    kept = values(run(50, True, **WAYS[way]))[0].float().mean()
    assert lost > 0.998  # the first step from ŵ = w, and then no more
    # 50 roundings of 1,000 elements, each off by less than an ulp of 1/256: the mean's deviation is below 1e-3
    assert abs(kept - exact) < 0.003
    assert exact < 0.985


def test_the_chance_of_rounding_up_is_the_fraction_of_an_ulp():
    ulp = 2.0**-7  # between 1 and 2
    for part in (0.0, 0.1, 0.5, 0.9):
        x = torch.empty(100_000, dtype=torch.bfloat16)
        (seed,) = seeds([3], [torch.tensor(5.0)])
        store(x, torch.full((100_000,), 1 + part * ulp), seed)
        assert set(x.unique().tolist()) <= {1.0, 1 + ulp}
        assert float((x > 1).float().mean()) == pytest.approx(part, abs=0.006)  # four deviations
        store(x, torch.full((100_000,), -1 - part * ulp), seed)
        assert float((x < -1).float().mean()) == pytest.approx(part, abs=0.006)


def test_elements_steps_and_tensors_are_rounded_independently():
    def noise(group: int, number: int, step: float) -> torch.Tensor:
        x = torch.empty(20_000, dtype=torch.bfloat16)
        store(x, torch.full((20_000,), 1 + 2.0**-8), seeds([salt(group, number)], [torch.tensor(step)])[0])
        return (x > 1).float() - 0.5

    base = noise(0, 0, 1.0)
    for other in (base.roll(1), base.roll(64), noise(0, 0, 2.0), noise(0, 1, 1.0), noise(1, 0, 1.0)):
        assert abs(float((base * other).mean())) < 0.25 * 4 / 20_000**0.5


def test_inf_and_nan_are_not_changed_by_rounding():
    x = torch.empty(4, dtype=torch.bfloat16)
    odd = torch.tensor([0x7FFFFFFF, 0x7F800000, -0x00800000, -1], dtype=torch.int32).view(torch.float32)
    store(x, odd, torch.tensor(123))
    assert x[0].isnan()
    assert x[1] == float("inf")
    assert x[2] == -float("inf")
    assert x[3].isnan()


def test_other_dtypes_are_rounded_to_the_nearest():
    for dtype in (torch.float32, torch.float16):
        assert torch.equal(values(run(20, True, dtype))[0], values(run(20, False, dtype))[0])


@pytest.mark.parametrize("way", WAYS)
def test_a_resumed_run_has_the_same_random_numbers(way: str):
    whole = run(10, True, **WAYS[way])
    first = run(6, True, **WAYS[way])
    p = nn.Parameter(values(first)[0])
    resumed = AdamPlus([p], norm_power=0.0, beta_power=0.0, **WAYS[way])
    resumed.load_state_dict(through_a_file(first.state_dict()))
    for _ in range(4):
        p.grad = torch.ones_like(p)
        resumed.step()
    assert torch.equal(p, values(whole)[0])


@pytest.mark.parametrize("way", ["plain", "fused"])
@pytest.mark.uncovered  # shorter tests run the same lines
def test_small_decoupled_decay_is_not_lost(way: str):
    p = nn.Parameter(torch.ones(4000, dtype=torch.bfloat16))
    settings: dict[str, Any] = {"weight_decay": 1e-3, "decoupled_weight_decay": True, "stochastic_rounding": True}
    optimizer = AdamPlus([p], lr=1.0, eps=1.0, **settings, **WAYS[way])
    for _ in range(30):
        p.grad = torch.zeros_like(p)
        optimizer.step()
    assert float(p.detach().float().mean()) == pytest.approx(0.999**30, abs=1e-3)


def test_stochastic_rounding_of_differentiable_steps_is_refused():
    with pytest.raises(RuntimeError, match="noise has no derivative"):
        AdamPlus([nn.Parameter(torch.ones(2))], stochastic_rounding=True, differentiable=True)


def test_the_roundings_of_one_step_are_independent():
    """Plain execution rounds w and then ŵ. With the same noise for both, the two errors would cancel."""
    x = torch.full((20_000,), 1.0, dtype=torch.bfloat16)
    (seed,) = seeds([0], [torch.tensor(1.0)])
    ups = []
    for sign in (1, -1):
        y = x.clone()
        PLAIN.add_scaled([y], [torch.ones(20_000)], [torch.tensor(sign * 2.0**-8)], sign, [seed])
        ups.append((y > 1).float() - 0.5)
    assert abs(float((ups[0] * ups[1]).mean())) < 0.25 * 4 / 20_000**0.5
    assert abs(float((ups[0] * ups[1].view(-1, 4)[:, [2, 3, 0, 1]].reshape(-1)).mean())) < 0.25 * 4 / 20_000**0.5


def test_the_kernels_round_elements_steps_and_tensors_independently():
    """At each first step, ŵ is half-way between two bfloat16 numbers."""
    ups = []
    for _ in range(2):
        ps = [nn.Parameter(torch.ones(20_000, dtype=torch.bfloat16)) for _ in range(2)]
        settings: dict[str, Any] = {"lr": 2.0**-8, "norm_power": 0.0, "beta": 1.0, "beta_power": 0.0}
        optimizer = AdamPlus(ps, **settings, maximize=True, fused=True, stochastic_rounding=True)
        for _ in range(2):
            for p in ps:
                p.data.fill_(1.0)
                p.grad = torch.ones_like(p)
            optimizer.step()
            ups += [(p.detach() > 1).float() - 0.5 for p in ps]
    once, again = ups[:4], ups[4:]
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    pairs = [(a, b) for i, a in enumerate(once) for b in once[i + 1 :]] + [(a, a.roll(1)) for a in once]
    for a, b in pairs:
        assert abs(float(a.mean())) < 0.5 * 4 / 20_000**0.5
        assert abs(float((a * b).mean())) < 0.25 * 4 / 20_000**0.5


def test_a_float64_z_is_rounded_too():
    p = nn.Parameter(torch.ones(4000, dtype=torch.bfloat16))
    optimizer = AdamPlus([p], lr=4e-4, state_dtype=torch.float64, stochastic_rounding=True)
    for _ in range(3):
        p.grad = torch.ones_like(p)
        optimizer.step()
    assert 0.9 < float(p.detach().float().mean()) < 1
