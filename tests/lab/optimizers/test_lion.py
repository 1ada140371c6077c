"""Lion's steps, by hand and beside the published update."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adamplus.lab.optimizers.lion import Lion


def test_two_steps_by_hand():
    w = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    lion = Lion([w], lr=0.5, betas=(0.75, 0.5), weight_decay=0.25)
    w.grad = torch.tensor([4.0, -4.0, 0.0])
    lion.step()
    # w (1 − 0.5 · 0.25) − 0.5 sign(g / 4), where sign(0) = 0; m = g / 2
    assert w.tolist() == [0.875 - 0.5, -1.75 + 0.5, 2.625]
    assert lion.state[w]["average"].tolist() == [2.0, -2.0, 0.0]
    w.grad = torch.tensor([-4.0, 8.0, -1.0])
    lion.step()
    # 0.75 m + 0.25 g = (0.5, 0.5, −0.25): in the first coordinate, the buffer outweighs the gradient
    assert w.tolist() == [0.375 * 0.875 - 0.5, -1.25 * 0.875 - 0.5, 2.625 * 0.875 + 0.5]
    assert lion.state[w]["average"].tolist() == [-1.0, 3.0, -0.5]


def published(w: Tensor, m: Tensor, g: Tensor, lr: float, betas: tuple[float, float], decay: float) -> Tensor:
    """Algorithm 2 of the paper, line by line; returns the new θ and changes m."""
    beta1, beta2 = betas
    c = beta1 * m + (1 - beta1) * g
    w = w - lr * (c.sign() + decay * w)
    m.copy_(beta2 * m + (1 - beta2) * g)
    return w


@pytest.mark.parametrize("lr", [3e-3, torch.tensor(3e-3, dtype=torch.float64)])
def test_a_walk_follows_the_published_update(lr: float | Tensor):
    generator = torch.Generator().manual_seed(0)
    params = [nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64)) for shape in [(5, 3), (7,)]]
    expected, momenta = [p.detach().clone() for p in params], [torch.zeros_like(p) for p in params]
    lion = Lion(params, lr=lr, weight_decay=0.5)
    for _ in range(50):
        for i, p in enumerate(params):
            p.grad = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            expected[i] = published(expected[i], momenta[i], p.grad, 3e-3, (0.9, 0.99), 0.5)
        lion.step()
    for p, w in zip(params, expected, strict=True):
        torch.testing.assert_close(p.detach(), w, rtol=1e-12, atol=0)  # rounding of 50 steps in float64


def test_parameters_without_gradients_stay_as_they_are():
    w, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    lion = Lion([{"params": [w, unused]}, {"params": [nn.Parameter(torch.ones(1))]}], lr=0.5, weight_decay=0.5)

    def closure() -> Tensor:
        loss = w.sum()
        loss.backward()
        return loss

    assert lion.step(closure) == 2
    assert w.tolist() == [0.25, 0.25]
    assert unused.tolist() == [1.0, 1.0]
    assert list(lion.state) == [w]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": -1.0}, "lr must be at least 0, got -1.0"),
        ({"betas": (0.9, 1.0)}, r"betas must be in \[0, 1\), got \(0.9, 1.0\)"),
        ({"weight_decay": float("nan")}, "weight_decay must be at least 0, got nan"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Lion([nn.Parameter(torch.ones(1))], **settings)
