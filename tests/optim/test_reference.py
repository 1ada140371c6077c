"""The reference optimizer against arithmetic done by hand."""

import copy
from typing import Any

import pytest
import torch

from adamplus import AdamPlusReference


def test_two_steps_match_arithmetic_by_hand():
    w = torch.nn.Parameter(torch.tensor([3.0, 0.0], dtype=torch.float64))
    optimizer = AdamPlusReference([w], lr=1.0, beta=0.5)
    w.grad = torch.tensor([0.0, 4.0], dtype=torch.float64)
    optimizer.step()  # ‖z‖ = 4, η = 0.5/2 = 0.25, w = (3, −1), ŵ = (3, −2)
    assert optimizer.state[w]["w"].tolist() == [3.0, -1.0]
    assert w.tolist() == [3.0, -2.0]
    w.grad = torch.tensor([18.0, -4.0], dtype=torch.float64)
    optimizer.step()  # z = (9, 0), ‖z‖ = 9, η = 0.5/3, w = (3 − 1.5, −1), ŵ = (3 − 3, −1)
    assert optimizer.state[w]["w"].tolist() == pytest.approx([1.5, -1.0], rel=1e-15)
    assert w.tolist() == pytest.approx([0.0, -1.0], abs=1e-15)


@pytest.mark.parametrize(
    ("powers", "eta"),
    [
        ({"beta_power": 1.0, "norm_power": 0.5}, 0.2 * 0.25 / 8.0),
        ({"beta_power": 4 / 3, "norm_power": 2 / 3}, 0.2 * 0.25 ** (4 / 3) / 16.0),
        ({"beta_power": 0.0, "norm_power": 1.0}, 0.2 / 64.0),
        ({"beta_power": 2.0, "norm_power": 0.0}, 0.2 * 0.0625),
    ],
)
def test_other_powers_of_the_norm_and_of_beta_match_arithmetic_by_hand(powers: dict[str, Any], eta: float):
    w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = AdamPlusReference([w], lr=0.2, beta=0.25, **powers)
    w.grad = torch.tensor([64.0], dtype=torch.float64)
    optimizer.step()
    assert float(optimizer.state[w]["w"]) == pytest.approx(-eta * 64, rel=1e-14)
    assert float(w.detach()) == pytest.approx(-eta / 0.25 * 64, rel=1e-14)


@pytest.mark.parametrize(("lookahead", "w_hat"), [(None, -2.0), (0.0, -1.0), (1.0, -2.0), (2.5, -3.5)])
def test_gradients_are_taken_the_given_number_of_steps_ahead(lookahead: float | None, w_hat: float):
    w = torch.nn.Parameter(torch.tensor([0.0], dtype=torch.float64))
    optimizer = AdamPlusReference([w], lr=1.0, beta=0.5, lookahead=lookahead)
    w.grad = torch.tensor([4.0], dtype=torch.float64)
    optimizer.step()  # η = 0.5/2, so w moves by −1; the paper is 1/0.5 − 1 = 1 step ahead
    assert optimizer.state[w]["w"].tolist() == [-1.0]
    assert w.tolist() == [w_hat]


def test_both_kinds_of_weight_decay_match_arithmetic_by_hand():
    for decoupled, w_next in ((False, 2.0 - 0.5 * (4.0 + 0.02 * 2.0)), (True, (1 - 0.5 * 0.02) * 2.0 - 0.5 * 4.0)):
        w = torch.nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
        optimizer = AdamPlusReference(
            [w], lr=0.5, beta=1.0, norm_power=0.0, weight_decay=0.02, decoupled_weight_decay=decoupled
        )
        w.grad = torch.tensor([4.0], dtype=torch.float64)
        optimizer.step()
        assert float(w.detach()) == pytest.approx(w_next, rel=1e-15)


def test_a_scope_is_one_vector():
    a, b, c = (torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in range(3))
    for scope, norms in (("global", (7.0, 7.0, 7.0)), ("group", (13**0.5, 13**0.5, 6.0)), ("tensor", (2.0, 3.0, 6.0))):
        optimizer = AdamPlusReference([{"params": [a, b]}, {"params": [c]}], lr=1.0, beta=1.0, norm_scope=scope)
        for p, g in ((a, 2.0), (b, 3.0), (c, 6.0)):
            p.data.zero_()
            p.grad = torch.tensor([g], dtype=torch.float64)
        optimizer.step()
        for p, g, norm in zip((a, b, c), (2.0, 3.0, 6.0), norms, strict=True):
            assert float(p.detach()) == pytest.approx(-g / norm**0.5, rel=1e-14)


def test_a_parameter_without_a_gradient_stays_and_keeps_no_state():
    p, q = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = AdamPlusReference([p, q])
    p.grad = torch.ones(2)
    optimizer.step()
    assert torch.equal(q, torch.ones(2))
    assert list(optimizer.state) == [p]


def test_a_closure_is_evaluated_with_gradients():
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = AdamPlusReference([w])

    def closure() -> float:
        optimizer.zero_grad()
        loss = w.square().sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 2.0
    assert (w < 1).all()


@pytest.mark.parametrize("settings", [{"beta": 0.0}, {"norm_scope": "Global"}, {"lr": -1.0}, {"eps": float("nan")}])
def test_the_reference_refuses_the_settings_that_adam_plus_refuses(settings: dict[str, Any]):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be"):
        AdamPlusReference([torch.nn.Parameter(torch.ones(1))], **settings)

    with pytest.raises(TypeError, match="param_group must be a dict"):
        AdamPlusReference([torch.nn.Parameter(torch.ones(1))]).add_param_group([])  # type: ignore[arg-type]


def test_the_reference_steps_only_in_train_mode_and_copies_keep_the_mode():
    w = torch.nn.Parameter(torch.ones(1))
    optimizer = AdamPlusReference([w])
    w.grad = torch.ones(1)
    optimizer.step()
    optimizer.eval()
    with pytest.raises(RuntimeError, match=r"step\(\) in eval mode.*Call train\(\)"):
        optimizer.step()
    assert not copy.deepcopy(optimizer).training
