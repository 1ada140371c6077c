"""Tests of the rivals' settings: refused values, and recipes calculated by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adamplus import rivals


def wrong(settings: dict[str, Any]) -> Any:
    """Hide from the type checker that the settings are wrong."""
    return settings


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: rivals.SPIDER([w], lr=-1.0), "lr must be finite and at least 0, got -1.0"),
        (lambda w: rivals.SPIDER([w], length=0.0), "length must be finite and above 0, got 0.0"),
        (lambda w: rivals.SPIDER([w], period=0), "period must be a whole number of at least 1, got 0"),
        (
            lambda w: rivals.SPIDER([w], **wrong({"norm_scope": "tensor"})),
            "norm_scope must be 'global' or 'row', got 'tensor'",
        ),
        (lambda w: rivals.STORM([w], w=0.0), "w must be finite and above 0, got 0.0"),
        (lambda w: rivals.STORM([w], c=float("nan")), "c must be finite and at least 0, got nan"),
        (lambda w: rivals.ProxSARAH([w], gamma=1.5), r"gamma must be in \(0, 1\], got 1.5"),
        (
            lambda w: rivals.ProxSARAH([w], **wrong({"inner": 2.0})),
            "inner must be a whole number of at least 1, got 2.0",
        ),
        (lambda w: rivals.SNVRG([w], loops=()), r"loops must be whole numbers of at least 1.*got \(\)"),
        (lambda w: rivals.GeneralizedAdam([w], betas=(1.0, 0.9)), r"betas must be two numbers in \[0, 1\), got"),
        (
            lambda w: rivals.GeneralizedAdam([w], **wrong({"second_moment": "adam"})),
            "'amsgrad' or 'adafom', got 'adam'",
        ),
        (lambda w: rivals.PAdam([w], power=0.6), r"power must be in \(0, 1/2\]"),
        (lambda w: rivals.PAdam([w], eps=0.0), "eps must be finite and above 0, got 0.0"),
        (lambda w: rivals.StagewiseAdaGrad([w], stage_steps=0), "stage_steps must be None or a whole number"),
        (lambda w: rivals.EscapingSGD([w], radius=0.0), "radius must be finite and above 0, got 0.0"),
        (lambda w: rivals.PAdam([{"params": [w], "lr": -0.1}]), "lr must be finite and at least 0, got -0.1"),
        (lambda w: rivals.SPIDER([{"params": [w], "period": 3}]), "period must be the same in all groups, got 3"),
        (lambda w: rivals.SNVRG([{"params": [w], "loops": (3,)}]), "loops must be the same in all groups"),
    ],
)
def test_invalid_values_are_refused(call: Callable[[Tensor], Any], message: str):
    with pytest.raises(ValueError, match=message):
        call(nn.Parameter(torch.ones(1)))


def test_complex_parameters_are_refused():
    with pytest.raises(TypeError, match=r"SPIDER needs real parameters.* pass torch\.view_as_real"):
        rivals.SPIDER([nn.Parameter(torch.ones(2, dtype=torch.complex64))])


def test_recipes_match_calculations_by_hand():
    spider = rivals.SPIDER.recipe(epsilon=0.1, L=2.0, sigma=0.5, n_0=2.0)
    assert spider.settings == {"lr": 1 / 8, "length": 0.025, "period": 10}
    assert spider.batches == (50, 5)
    storm = rivals.STORM.recipe(L=2.0, G=8.0)  # k = 4/2, c = 28 · 4 + 64/(7 · 2 · 8)
    assert storm.settings == {
        "lr": pytest.approx(2.0),
        "c": pytest.approx(112 + 4 / 7),
        "w": pytest.approx(((112 + 4 / 7) / 4) ** 3),
    }
    sarah = rivals.ProxSARAH.recipe(L=2.0, inner=24, batch=4, large_batch=100)  # ωm = 9
    assert sarah.settings == {"lr": pytest.approx(6 / 13), "gamma": pytest.approx(1 / 6), "inner": 24}
    assert sarah.batches == (100, 4)
    snvrg = rivals.SNVRG.recipe(L=2.0, levels=3)
    assert snvrg.settings == {"lr": 1 / 120, "loops": (2, 2, 4)}
    assert snvrg.batches == (256, 216 * 256, 36 * 64, 6 * 16)
    sgd = rivals.EscapingSGD.recipe(epsilon=0.04, L_H=4.0, sigma=2.0)  # η = 0.008/(4 · 2), K₀ = 1/(0.001 · 0.4)
    assert sgd.settings == {"lr": pytest.approx(0.001), "radius": pytest.approx(0.1), "ball_steps": 2500}


def test_the_a_of_storm_is_at_most_1():
    """c η² is 40 after the first step. With a = 40 instead of 1, d would be far from the gradient."""
    w = nn.Parameter(torch.tensor([2.0, 0.0], dtype=torch.float64))
    scale = iter((1.0, 3.0, 3.0))  # one scale per sample; the second is seen at both points
    optimizer = rivals.STORM([w], lr=1.0, w=4.0, c=160.0)

    def step() -> None:
        sample = next(scale)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = sample * w.square().sum() / 2
            loss.backward()
            return loss

        optimizer.step(closure)

    step()  # η = 1 / (4 + 4)^(1/3) = 1/2, a = 160/4
    assert w[0].item() == pytest.approx(1.0)
    step()  # G² grows by 9, and d is the gradient, 3
    assert w[0].item() == pytest.approx(1.0 - 3 / 17 ** (1 / 3))
