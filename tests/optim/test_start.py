"""Where to start: the paper's settings, lr from a rate of SGD, and what `print(optimizer)` shows."""

import inspect
from typing import Any

import pytest
import torch
from cases import FAMILY, params, small_model, train
from torch import nn

from adamplus import NIGT, PAPER, AdamPlus, AdamPlusReference, SpectralPlus, lr_from_sgd


def test_papers_settings_are_those_of_the_reference():
    defaults = {name: p.default for name, p in inspect.signature(AdamPlusReference).parameters.items()}
    assert {name: defaults[name] for name in PAPER} == PAPER


def test_papers_settings_can_be_passed():
    group = AdamPlus([nn.Parameter(torch.ones(1))], **PAPER).param_groups[0]
    assert {name: group[name] for name in PAPER} == PAPER


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("beta", [0.1, 0.7])
def test_the_first_step_of_w_is_that_of_sgd(name: str, beta: float):
    model = small_model(dtype=torch.float64)
    before = [p.detach().clone() for p in model.parameters()]
    x = torch.randn(16, 6, dtype=torch.float64)
    model(x).square().sum().backward()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item()
    lr = lr_from_sgd(0.05, norm, beta, **FAMILY[name][1])
    optimizer = AdamPlusReference(model.parameters(), lr=lr, beta=beta, **FAMILY[name][1])
    optimizer.step()
    optimizer.eval()
    for p, start in zip(params(optimizer), before, strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.data, start - 0.05 * p.grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("rate", "norm", "name"), [(0.0, 1.0, "rate"), (0.1, 0.0, "norm"), (0.1, float("nan"), "norm")]
)
def test_no_lr_follows_from_a_rate_or_a_norm_of_zero(rate: float, norm: float, name: str):
    with pytest.raises(ValueError, match=f"{name} must be finite and above 0"):
        lr_from_sgd(rate, norm)


def test_printing_shows_settings_and_not_internals():
    model = small_model()
    named: Any = [
        {"params": [*model[0].named_parameters()], "lr": 0.25},
        {"params": [*model[2].named_parameters()][:1]},
    ]
    optimizer = AdamPlus(named, lr=torch.tensor(0.5))
    train(model, optimizer, range(2))
    first, second = str(optimizer).split("Parameter Group 1")
    assert first.startswith("AdamPlus (\nmode: train\nParameter Group 0\n    params: 2 tensors\n")
    assert "\n    lr: 0.25\n" in first
    assert "\n    lr: 0.5\n" in second
    assert "params: 1 tensor\n" in second
    assert first.isascii()
    assert "mode: eval" in str(optimizer.eval())
    for one in (optimizer, NIGT(model.parameters()), SpectralPlus(model.parameters(), geometry="sign")):
        assert not any(word in str(one) for word in ("record", "training", "param_names", "layout", "extrapol"))
