"""torch.amp: scaled gradients, and steps that must not happen."""

import copy

import pytest
import torch
from cases import EXECUTIONS, batch, small_model, values
from torch import nn

from adamplus import AdamPlus


def state_of(optimizer: AdamPlus) -> dict:
    return copy.deepcopy(optimizer.state_dict())


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_step_with_inf_changes_nothing_at_all(execution: str):
    model = small_model()
    optimizer = AdamPlus(model.parameters(), **EXECUTIONS[execution])
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    for i in range(6):
        x, y = batch(i)
        optimizer.zero_grad()
        scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
        before, state = values(optimizer), state_of(optimizer)
        poisoned = i in (0, 3)  # the first step, when there is no state yet, and one in the middle
        if poisoned:
            next(model.parameters()).grad.view(-1)[0] = float("inf")  # pyright: ignore[reportOptionalMemberAccess]
        scaler.step(optimizer)
        scaler.update()
        same = all(torch.equal(a, b) for a, b in zip(before, values(optimizer), strict=True))
        assert same == poisoned
        if poisoned:
            now = optimizer.state_dict()
            assert now["state"].keys() == state["state"].keys()
            for key, old in state["state"].items():
                assert all(torch.equal(old[name], now["state"][key][name]) for name in old)
            assert torch.equal(now["param_groups"][0]["record"], state["param_groups"][0]["record"])
    assert optimizer.stats().step == 4


def test_a_fused_step_without_gradients_changes_nothing():
    """Two optimizers may take turns with one scaler. GradScaler itself refuses an optimizer without gradients."""
    optimizer = AdamPlus([nn.Parameter(torch.ones(3))], fused=True)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones((), requires_grad=True)).backward()
    scaler.step(optimizer)
    assert optimizer.stats().step == 0


def test_scaling_by_powers_of_two_changes_no_bit():
    results = []
    for scale in (1.0, 1024.0):
        model = small_model()
        optimizer = AdamPlus(model.parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        for i in range(8):
            x, y = batch(i)
            optimizer.zero_grad()
            scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        results.append(values(optimizer))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_autocast_trains_with_float32_state():
    model = small_model()
    optimizer = AdamPlus(model.parameters(), lr=0.3)
    losses = []
    for i in range(60):
        x, y = batch(i % 4)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    assert {s["z"].dtype for s in optimizer.state.values()} == {torch.float32}
