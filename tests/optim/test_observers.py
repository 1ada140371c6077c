"""Hooks and profilers see the same of a step as with torch.optim."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from adamplus import NIGT, AdamPlus


def stepping(cls: type[AdamPlus] = AdamPlus) -> AdamPlus:
    p = nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    return cls([p])


@pytest.mark.parametrize("cls", [AdamPlus, NIGT])
def test_a_profiler_sees_the_step_under_its_name(cls: type[AdamPlus]):
    optimizer = stepping(cls)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        optimizer.step()
    assert f"Optimizer.step#{cls.__name__}.step" in [event.key for event in profile.key_averages()]


def test_global_hooks_are_called_around_the_hooks_of_an_optimizer():
    optimizer, seen = stepping(), []
    hooks = [
        register_optimizer_step_pre_hook(lambda *_: seen.append("global, before")),
        register_optimizer_step_post_hook(lambda *_: seen.append("global, after")),
    ]
    optimizer.step()
    own = optimizer.register_step_pre_hook(lambda *_: seen.append("own, before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("own, after"))
    optimizer.step()
    for hook in hooks:
        hook.remove()
    own.remove()
    optimizer.step()
    assert seen == [
        *("global, before", "global, after"),
        *("global, before", "own, before", "own, after", "global, after"),
        "own, after",
    ]
    assert optimizer.stats().step == 3


def test_a_hook_may_pass_a_closure():
    optimizer = stepping()

    def hook(_: Any, args: Any, kwargs: Any) -> Any:
        assert args == (optimizer,)
        return (*args, lambda: 5.0), kwargs

    optimizer.register_step_pre_hook(hook)
    assert optimizer.step() == 5.0


def test_schedulers_count_steps():
    optimizer = stepping()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()  # warns, and warnings are errors here, if it has not seen the step
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_hooks_of_a_subclass_that_overrides_step_are_called_once():
    class Own(AdamPlus):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    optimizer, seen = stepping(Own), []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.step()
    assert seen == ["before"]
