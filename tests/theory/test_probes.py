"""Tests of the probes: they measure the right quantities, and they do not change the run."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adamplus import NIGT, AdamPlus, AdamPlusReference
from adamplus.theory import GrowthProbe, RandomIterate, VarianceProbe, growth_exponent

X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
Y = torch.randn(64, 1, generator=torch.Generator().manual_seed(1))


def network() -> nn.Module:
    torch.manual_seed(2)
    layers = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1)
    return nn.Sequential(*layers)


def train(model: nn.Module, optimizer: AdamPlus, steps: int = 12) -> list[Tensor]:
    torch.manual_seed(3)
    for _ in range(steps):
        rows = torch.randint(64, (8,))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(X[rows]), Y[rows]).backward()
        optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values()]
    return [t.detach().clone() for t in (*model.parameters(), *model.buffers(), *states, torch.get_rng_state())]


def full_gradient(model: nn.Module) -> Any:
    def gradient() -> None:
        model.train()
        nn.functional.mse_loss(model(X), Y).backward()

    return gradient


@pytest.mark.parametrize("probed", ["variance", "growth", "iterate"])
def test_a_probe_does_not_change_the_run(probed: str):
    plain = network()
    expected = train(plain, AdamPlus(plain.parameters(), lr=0.3))
    model = network()
    optimizer = AdamPlus(model.parameters(), lr=0.3)
    if probed == "variance":
        probe: Any = VarianceProbe(model, optimizer, full_gradient(model), every=2)
    else:
        probe = GrowthProbe(optimizer) if probed == "growth" else RandomIterate(optimizer)
    found = train(model, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert probed != "variance" or len(probe.history) == 6
    probe.remove()
    train(model, optimizer)
    assert probed != "variance" or len(probe.history) == 6


@pytest.mark.parametrize("mode", [True, False])
def test_a_model_that_the_optimizer_follows_is_measured_at_the_same_points(mode: bool):
    """If gradient() switches the model, the optimizer must not follow it, and must keep its mode."""
    histories = []
    for follows in (False, True):
        model = network()
        optimizer = AdamPlus(model.parameters(), lr=0.3)
        if follows:
            optimizer.follow(model)

        def gradient(model: nn.Module = model) -> None:
            nn.functional.mse_loss(model.train(mode)(X), Y).backward()

        probe = VarianceProbe(model, optimizer, gradient, every=2)
        train(model, optimizer)
        assert optimizer.training
        assert all(module.training for module in model.modules())
        histories.append(probe.history)
    assert histories[0] == histories[1]


@pytest.mark.parametrize("settings", [{}, {"weight_decay": 0.1}, {"maximize": True}, {"beta": 0.5}])
def test_errors_are_those_of_the_stored_sequences(settings: dict[str, Any]):
    """AdamPlusReference stores w, ŵ and z. The expected distances are computed from these, in float64."""
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    w = nn.Parameter(torch.ones(3, dtype=torch.float64))
    twin = nn.Parameter(w.detach().clone())
    optimizer, reference = AdamPlus([w], lr=0.1, **settings), AdamPlusReference([twin], lr=0.1, **settings)

    def gradient() -> None:
        (scale * w.square() / 2).sum().backward()

    probe = VarianceProbe(nn.ParameterList([w]), optimizer, gradient, every=1)
    decay, sign = settings.get("weight_decay", 0.0), -1.0 if settings.get("maximize") else 1.0
    generator = torch.Generator().manual_seed(4)
    for t in range(20):
        noise = torch.randn(3, generator=generator, dtype=torch.float64)
        w.grad, twin.grad = scale * w.detach() + noise, scale * twin.detach() + noise
        before = reference.state[twin]["w"].clone() if t else twin.detach().clone()  # w_t
        optimizer.step()
        reference.step()
        true = sign * scale * before + decay * before
        errors = probe.history[-1]
        assert errors.step == t
        assert errors.z_error == pytest.approx(float((reference.state[twin]["z"] - true).norm()), rel=1e-9)
        assert errors.g_error == pytest.approx(float(noise.norm()), rel=1e-9)
        assert errors.gradient == pytest.approx(float(true.norm()), rel=1e-9)


def test_a_probe_measures_on_request_and_refuses_what_cannot_be_measured():
    model = network()
    optimizer = NIGT(model.parameters())
    probe = VarianceProbe(model, optimizer, full_gradient(model), every=0)
    train(model, optimizer, 2)
    assert probe.history == []
    assert probe.measure().step == 2
    optimizer.zero_grad()
    with pytest.raises(RuntimeError, match="between backward"):
        probe.measure()
    with pytest.raises(TypeError, match="not SGD"):
        VarianceProbe(model, torch.optim.SGD(model.parameters()), full_gradient(model))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"every must be at least 1, or 0 .* got -1"):
        VarianceProbe(model, optimizer, full_gradient(model), every=-1)
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        GrowthProbe(optimizer, every=0)


def test_a_gradient_that_misses_a_parameter_is_refused_and_everything_is_restored():
    model = network()
    optimizer = AdamPlus(model.parameters())
    train(model, optimizer, 1)
    before = copy.deepcopy([(p, p.grad) for p in model.parameters()])
    probe = VarianceProbe(model, optimizer, lambda: None)
    with pytest.raises(RuntimeError, match="without a gradient"):
        probe.measure()
    for (p, grad), now in zip(before, model.parameters(), strict=True):
        assert torch.equal(p, now)
        assert torch.equal(grad, now.grad)  # type: ignore[arg-type]


def test_the_recorded_sum_of_norms_is_that_of_the_optimizer():
    w = nn.Parameter(torch.ones(2))
    optimizer = AdamPlus([w], lr=0.01)
    growth = GrowthProbe(optimizer, every=5)
    sums = []
    for _ in range(20):
        w.grad = w.detach().clone()
        optimizer.step()
        sums.append(optimizer.stats().norm_sum)
    assert growth.steps == [5, 10, 15, 20]
    assert growth.sums == sums[4::5]
    assert 0.5 < growth.exponent() < 1
    with pytest.raises(ValueError, match="at least two positive sums"):
        growth_exponent([1], [1.0])


def test_the_kept_iterate_is_uniform_over_the_run_and_is_w():
    """800 copies each keep one of the 8 points of a run."""
    w = nn.Parameter(torch.zeros(1))
    optimizer = AdamPlus([w], lr=0.1)
    keepers = [RandomIterate(optimizer, seed) for seed in range(800)]
    iterates = []
    for _ in range(8):
        w.grad = torch.ones(1)
        optimizer.step()
        with optimizer.averaged():
            iterates.append(w.item())
    assert all(kept.w[0].item() == pytest.approx(iterates[kept.tau - 1], abs=1e-7) for kept in keepers)
    with keepers[0].there():
        assert w.item() == keepers[0].w[0].item()
    counts = torch.bincount(torch.tensor([kept.tau - 1 for kept in keepers]), minlength=8)
    # χ² with 7 degrees of freedom exceeds 24.3 with probability 1e-3
    assert float(((counts - 100) ** 2 / 100).sum()) < 24.3


def test_the_kept_iterate_resumes():
    def run(interrupted: bool) -> tuple[int, list[Tensor]]:
        w = nn.Parameter(torch.ones(2))
        optimizer = AdamPlus([w], lr=0.1)
        kept = RandomIterate(optimizer, seed=5)
        for t in range(30):
            if interrupted and t == 11:
                state = copy.deepcopy(kept.state_dict())
                kept.remove()
                kept = RandomIterate(optimizer, seed=99)
                kept.load_state_dict(state)
            w.grad = w.detach().clone()
            optimizer.step()
        return kept.tau, kept.w

    (tau, w), (same_tau, same_w) = run(False), run(True)
    assert tau == same_tau
    assert torch.equal(w[0], same_w[0])
    with pytest.raises(RuntimeError, match="no step was taken"), RandomIterate(AdamPlus([nn.Parameter(w[0])])).there():
        pass
