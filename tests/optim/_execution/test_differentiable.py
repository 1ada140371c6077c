"""Autograd through a step, to second order."""

from typing import Any

import pytest
import torch
from cases import FAMILY, SETTINGS, difference, params, values
from torch import Tensor, nn

from adamplus import AdamPlus


def two_steps(name: str, settings: dict[str, Any], p: Tensor, g1: Tensor, g2: Tensor, lr: Any, beta: Any) -> Any:
    """Parameters and state after two steps, as a function of parameters, gradients, lr and β."""
    p = p.clone()
    kind = {"momentum": 1 - beta} if name == "nigt" else {"beta": beta}
    optimizer = FAMILY[name][0]([p], lr=lr, differentiable=True, **{**settings, **kind})
    p.grad = g1
    optimizer.step()
    p.grad = g2
    optimizer.step()
    return p, optimizer.state[p]["z"], optimizer.state[p]["offset"]


@pytest.mark.parametrize("setting", ["default", "coupled", "decoupled", "maximize", "tensor"])
@pytest.mark.parametrize("name", FAMILY)
def test_first_and_second_derivatives_through_two_steps(name: str, setting: str):
    inputs = [torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    scalars = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.1, 0.3)]

    def function(p: Tensor, g1: Tensor, g2: Tensor, lr: Tensor, beta: Tensor) -> Any:
        return two_steps(name, SETTINGS[setting], p, g1, g2, lr, beta)

    assert torch.autograd.gradcheck(function, (*inputs, *scalars))
    assert torch.autograd.gradgradcheck(function, (*inputs, *scalars))


def test_derivatives_through_steps_of_complex_parameters():
    inputs = [torch.randn(3, dtype=torch.complex128, requires_grad=True) for _ in range(3)]

    def function(p: Tensor, g1: Tensor, g2: Tensor) -> Any:
        return two_steps("adam_plus", {}, p, g1, g2, 0.1, 0.3)[0]

    assert torch.autograd.gradcheck(function, tuple(inputs))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_differentiable_equals_plain(dtype: torch.dtype):
    results = []
    for differentiable in (False, True):
        torch.manual_seed(0)
        ps = [torch.randn(4).to(dtype), torch.randn(2, 3).to(dtype)]
        optimizer = AdamPlus(ps, differentiable=differentiable, weight_decay=0.01, decoupled_weight_decay=True)
        for i in range(5):
            for j, p in enumerate(ps):
                p.grad = None if (i, j) == (2, 0) else torch.randn(p.shape).to(dtype)
            optimizer.step()
        optimizer.eval()
        results.append(values(optimizer))
    # plain rounds each point once; out of place, a product is rounded on its own
    assert difference(results[1], results[0]) <= 8 * torch.finfo(dtype).eps


def test_a_learned_learning_rate_learns():
    """Meta-learning: minimise the loss after a step with respect to lr."""
    lr = torch.tensor(0.01, requires_grad=True)
    start = torch.tensor([3.0, -2.0])
    meta = torch.optim.SGD([lr], lr=0.01)
    losses = []
    for _ in range(20):
        at = start.clone().requires_grad_()
        w = at.clone()  # a step overwrites w, and the graph of the gradient needs the values before it
        optimizer = AdamPlus([w], lr=lr, beta=0.5, differentiable=True)
        (w.grad,) = torch.autograd.grad(at.square().sum(), at, create_graph=True)
        optimizer.step()
        loss = w.square().sum()
        meta.zero_grad()
        loss.backward()
        meta.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert float(lr.detach()) > 0.01


def test_without_differentiable_no_graph_is_kept():
    p = nn.Parameter(torch.ones(2))
    lr = torch.tensor(0.1, requires_grad=True)
    optimizer = AdamPlus([p], lr=lr)
    p.grad = torch.ones(2)
    optimizer.step()
    assert all(not t.requires_grad for t in optimizer.state[p].values())
    assert params(optimizer)[0].is_leaf
