"""inf and NaN in a gradient: a step that shows them everywhere."""

import math
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch
from cases import FAMILY, difference, give, params, values
from torch import Tensor, nn

from adamplus import AdamPlus, AdamPlusReference

BAD = [math.inf, -math.inf, math.nan]
# name → how the optimizer is built, and whether its step is compiled
EXECUTIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "C": ({}, False),
    "foreach": ({"foreach": True, "state_dtype": torch.float64}, False),
    "plain": ({"foreach": False}, False),
    "capturable": ({"capturable": True}, False),
    "differentiable": ({"differentiable": True}, False),
    "fused": ({"fused": True}, False),
    "compiled": ({}, True),
    "compiled fused": ({"fused": True}, True),
}


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def _quiet_interpreter() -> Iterator[None]:
    """Triton's interpreter computes in NumPy, which warns of what a GPU does without a word."""
    with numpy.errstate(all="ignore"):
        yield


def built(execution: str, shapes: Any = ((3, 2), (4,)), **settings: Any) -> tuple[AdamPlus, Any]:
    """An optimizer of that execution, with one parameter in each group, and what takes its step."""
    own, is_compiled = EXECUTIONS[execution]
    tensors = [torch.randn(shape) for shape in shapes]
    ps = tensors if own.get("differentiable") else [nn.Parameter(t) for t in tensors]
    optimizer = AdamPlus([{"params": [p]} for p in ps], **{**own, **settings})
    return optimizer, torch.compile(optimizer.step, backend="aot_eager") if is_compiled else optimizer.step


def gradients(optimizer: torch.optim.Optimizer, bad: float | None = None) -> list[Tensor]:
    """New gradients. One element of the first is `bad`."""
    grads = [torch.randn_like(p) for p in params(optimizer)]
    if bad is not None:
        grads[0].view(-1)[1] = bad
    return grads


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("before", [0, 2], ids=["first step", "third step"])
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_gradient_that_is_not_finite_makes_eta_and_every_parameter_nan(execution: str, before: int, bad: float):
    """η = 0 would stop the training, and nothing would show it."""
    optimizer, step = built(execution)
    for t in range(before + 2):  # it stays NaN in the step after that
        give(optimizer, gradients(optimizer, bad if t == before else None))
        step()
        if t >= before:
            assert math.isnan(optimizer.stats().eta)
            assert not math.isfinite(optimizer.stats().norm)
            assert all(p.isnan().all() for p in params(optimizer))
    optimizer.eval()
    assert all(p.isnan().all() for p in params(optimizer))


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_the_reference_has_the_same_rule_in_every_scope(execution: str):
    for scope in ("group", "tensor"):
        optimizer, step = built(execution, norm_scope=scope)
        copies = [{"params": [nn.Parameter(p.detach().double())]} for p in params(optimizer)]
        reference = AdamPlusReference(copies, norm_scope=scope)
        for bad in (None, math.inf):
            grads = gradients(optimizer, bad)
            for one in (optimizer, reference):
                give(one, grads)
            step()
            reference.step()
        for one in (optimizer, reference):
            poisoned, clean = params(one)
            assert poisoned.isnan().all()
            assert clean.isfinite().all()
        assert difference(values(optimizer)[1:], values(reference)[1:]) <= 1e-6


@pytest.mark.parametrize("name", FAMILY)
def test_the_reference_is_nan_in_the_first_step_and_later(name: str):
    for before in (0, 2):
        reference = AdamPlusReference([nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))], **FAMILY[name][1])
        for t in range(before + 1):
            give(reference, gradients(reference, math.inf if t == before else None))
            reference.step()
        assert all(p.isnan().all() for p in params(reference))


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_without_a_power_of_the_norm_only_the_element_itself_is_lost(execution: str):
    """norm_power=0 is SGD, whose elements know nothing of each other."""
    optimizer, step = built(execution, norm_power=0.0)
    for bad in (None, math.inf):
        give(optimizer, gradients(optimizer, bad))
        step()
    poisoned, clean = params(optimizer)
    assert poisoned.view(-1).isfinite().tolist() == [True, False, *[True] * 4]
    assert clean.isfinite().all()
