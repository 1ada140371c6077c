"""Tests of what holds for every rival: checkpoints, rows as runs, closures, groups, errors and progress."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import through_a_file
from torch import Tensor, nn

from adamplus import rivals
from adamplus.rivals._paired_gradients import PairedGradients
from adamplus.theory.problems import DoubleWell

MAKE: dict[str, Callable[..., Any]] = {
    "SPIDER": lambda params, **other: rivals.SPIDER(params, 0.3, 0.1, period=4, **other),
    "STORM": lambda params, **other: rivals.STORM(params, 0.5, c=4.0, **other),
    "Prox-SARAH": lambda params, **other: rivals.ProxSARAH(params, 0.2, inner=4, **other),
    "SNVRG": lambda params, **other: rivals.SNVRG(params, 0.2, loops=(2, 3), **other),
    "AMSGrad": lambda params, **other: rivals.GeneralizedAdam(params, 0.3, (0.9, 0.9), **other),
    "AdaFom": lambda params, **other: rivals.GeneralizedAdam(params, 0.3, second_moment="adafom", **other),
    "PAdam": lambda params, **other: rivals.PAdam(params, 0.1, (0.9, 0.9), **other),
    "stagewise AdaGrad": lambda params, **other: rivals.StagewiseAdaGrad(
        params, 3.0, gamma=5.0, stage_steps=3, **other
    ),
    "stages by the rule": lambda params, **other: rivals.StagewiseAdaGrad(params, 30.0, gamma=0.5, bound=20.0, **other),
    "SGD": lambda params, **other: rivals.EscapingSGD(params, 0.2, radius=0.8, ball_steps=12, **other),
}
TWO_POINTS = ["SPIDER", "STORM", "Prox-SARAH", "SNVRG"]
SCOPED = ["SPIDER", "STORM", "stagewise AdaGrad", "stages by the rule", "SGD"]
PROBLEM = DoubleWell(3, sigma=0.3)


def walk(optimizer: Any, w: Tensor, steps: range, problem: DoubleWell = PROBLEM) -> None:
    """Take the given steps. Step i always sees the same sample."""
    for i in steps:
        batch = 16 if getattr(optimizer, "large_batch_next", False) else 2
        sample = problem.draw(len(w), batch, torch.Generator().manual_seed(i))

        def closure(sample: Any = sample) -> Tensor:
            value = problem.value(w, sample).sum()
            value.backward()
            return value

        if isinstance(optimizer, PairedGradients):
            optimizer.step(closure)
        else:
            optimizer.zero_grad()
            closure()
            optimizer.step()


def start(runs: int, dtype: torch.dtype = torch.float64) -> nn.Parameter:
    return nn.Parameter(PROBLEM.start(runs, torch.Generator().manual_seed(0)).to(dtype))


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_run_continues_from_its_checkpoint_bit_for_bit(name: str, dtype: torch.dtype):
    problem = DoubleWell(3, sigma=0.3, dtype=torch.float32 if dtype == torch.bfloat16 else dtype)
    for scope in [{}, {"norm_scope": "row"}] if name in SCOPED else [{}]:
        for stop in (5, 20):  # before and after the first stages end
            w = start(3, dtype)
            optimizer = MAKE[name]([w], **scope)
            walk(optimizer, w, range(stop), problem)
            saved = through_a_file({"w": w.detach(), "optimizer": optimizer.state_dict()})
            walk(optimizer, w, range(stop, 32), problem)

            other = nn.Parameter(saved["w"])
            resumed = MAKE[name]([other], **scope)
            resumed.load_state_dict(saved["optimizer"])
            walk(resumed, other, range(stop, 32), problem)
            assert torch.equal(w, other)


@pytest.mark.parametrize("name", MAKE)
def test_copies_and_pickles_take_the_same_steps(name: str):
    w = start(1)
    optimizer = MAKE[name]([w])
    walk(optimizer, w, range(5))
    for again, other in (copy.deepcopy((optimizer, w)), pickle.loads(pickle.dumps((optimizer, w)))):
        walk(again, again.param_groups[0]["params"][0], range(5, 9))
        assert again.steps == 9
        assert other is again.param_groups[0]["params"][0]
    walk(optimizer, w, range(5, 9))
    assert torch.equal(w, other)


@pytest.mark.parametrize("name", MAKE)
def test_rows_are_runs_that_do_not_depend_on_each_other(name: str):
    scope = {"norm_scope": "row"} if name in SCOPED else {}
    w = start(4)
    alone = [nn.Parameter(row.detach().clone()[None]) for row in w]
    together = MAKE[name]([w], **scope)
    apart = [MAKE[name]([p]) for p in alone]
    for i in range(32):
        noise = PROBLEM.draw(4, 2, torch.Generator().manual_seed(i))

        def closure(noise: tuple[Tensor, Tensor] = noise) -> None:
            w.grad = PROBLEM.gradient(w.detach(), noise)

        closure()
        together.step(closure)
        for row, (p, optimizer) in enumerate(zip(alone, apart, strict=True)):
            mine = tuple(part[row : row + 1] for part in noise)

            def one(p: nn.Parameter = p, mine: Any = mine) -> None:
                p.grad = PROBLEM.gradient(p.detach(), mine)

            one()
            optimizer.step(one)
    torch.testing.assert_close(w.detach(), torch.cat([p.detach() for p in alone]))


@pytest.mark.parametrize("name", MAKE)
def test_the_gradient_becomes_small(name: str):
    problem = DoubleWell(3, sigma=0.1)
    w = nn.Parameter(problem.start(16, torch.Generator().manual_seed(1)))
    optimizer = MAKE[name]([w], **({"norm_scope": "row"} if name in SCOPED else {}))
    walk(optimizer, w, range(150), problem)
    assert float(problem.gradient(w.detach()).norm(dim=1).mean()) < 0.25  # it is 1.2 at the start


@pytest.mark.parametrize("name", TWO_POINTS)
def test_the_error_of_a_missing_closure_says_what_it_must_do(name: str):
    w = start(1)
    w.grad = torch.ones_like(w)
    with pytest.raises(RuntimeError, match="the gradient of one sample at two points: pass step\\(\\) a closure"):
        MAKE[name]([w]).step()


@pytest.mark.parametrize("name", TWO_POINTS)
def test_the_closure_is_called_at_two_points_and_once_at_a_restart(name: str):
    w = start(1)
    optimizer = MAKE[name]([w])
    visited: list[Tensor] = []

    def closure() -> Tensor:
        visited.append(w.detach().clone())
        value = w.square().sum()
        value.backward()
        return value

    for step in range(13):
        before, restarts = w.detach().clone(), optimizer.large_batch_next or step == 0
        visited.clear()
        value = optimizer.step(closure)
        assert len(visited) == (1 if restarts else 2)
        assert torch.equal(visited[0], before)
        assert value.item() == before.square().sum().item()
        assert w.grad is not None
        assert torch.equal(w.grad, 2 * before)
        assert restarts or not torch.equal(visited[1], before)


@pytest.mark.parametrize("name", TWO_POINTS)
def test_a_parameter_with_a_gradient_only_at_the_second_point_is_not_touched(name: str):
    w, idle = start(1), nn.Parameter(torch.ones(3))
    optimizer = MAKE[name]([w, idle])
    calls: list[int] = []

    def closure() -> Tensor:
        calls.append(1)
        value = w.square().sum() + (idle.sum() if len(calls) == 3 else 0)
        value.backward()
        return value

    for _ in range(3):
        optimizer.step(closure)
    assert torch.equal(idle, torch.ones(3))


@pytest.mark.parametrize("name", TWO_POINTS)
def test_a_closure_that_fails_at_the_second_point_leaves_the_parameters_unchanged(name: str):
    w = start(1)
    optimizer = MAKE[name]([w])
    calls: list[int] = []

    def closure() -> Tensor:
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("data")
        value = w.square().sum()
        value.backward()
        return value

    optimizer.step(closure)
    before = w.detach().clone()
    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert torch.equal(w, before)
    assert optimizer.steps == 1


@pytest.mark.parametrize("name", MAKE)
def test_a_parameter_without_a_gradient_is_not_touched(name: str):
    w, idle = start(2), nn.Parameter(torch.ones(3))
    optimizer = MAKE[name]([w, idle])
    walk(optimizer, w, range(7))
    assert torch.equal(idle, torch.ones(3))
    assert not optimizer.state[idle]


@pytest.mark.parametrize("name", MAKE)
def test_a_step_without_any_gradient_changes_nothing(name: str):
    w = start(1)
    before = w.detach().clone()
    MAKE[name]([w]).step(lambda: 0.0)
    assert torch.equal(w, before)


@pytest.mark.parametrize("name", MAKE)
def test_a_group_that_is_added_later_is_stepped(name: str):
    w, late = start(2), nn.Parameter(torch.full((2, 3), 2.0, dtype=torch.float64))
    optimizer = MAKE[name]([w])
    walk(optimizer, w, range(5))
    optimizer.add_param_group({"params": [late]})
    assert {key: value for key, value in optimizer.param_groups[1].items() if key != "params"} == {
        key: value for key, value in optimizer.param_groups[0].items() if key != "params"
    }

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = w.square().sum() + late.square().sum()
        value.backward()
        return value

    for _ in range(3):
        optimizer.step(closure)
    assert bool((late < 2).all())
    assert optimizer.steps == 8


@pytest.mark.parametrize("name", MAKE)
def test_schedulers_change_the_rate(name: str):
    def end(factor: float) -> Tensor:
        w = start(1)
        optimizer = MAKE[name]([w])
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: factor)
        walk(optimizer, w, range(2))
        return w.detach()

    assert not torch.equal(end(1.0), start(1))
    assert torch.equal(end(0.0), start(1))


def test_a_checkpoint_restores_its_period():
    w = start(1)
    saved = MAKE["SPIDER"]([w]).state_dict()
    optimizer = rivals.SPIDER([w], period=100)
    optimizer.load_state_dict(saved)
    walk(optimizer, w, range(4))
    assert optimizer.large_batch_next


@pytest.mark.parametrize("name", ["SPIDER", "STORM", "Prox-SARAH", "SNVRG", "SGD"])
def test_an_optimizer_accepts_its_recipe(name: str):
    recipe, cls = {
        "SPIDER": (rivals.SPIDER.recipe(0.1, 1.0, 1.0), rivals.SPIDER),
        "STORM": (rivals.STORM.recipe(1.0, 1.0), rivals.STORM),
        "Prox-SARAH": (rivals.ProxSARAH.recipe(1.0, 5), rivals.ProxSARAH),
        "SNVRG": (rivals.SNVRG.recipe(1.0, 2), rivals.SNVRG),
        "SGD": (rivals.EscapingSGD.recipe(0.1, 1.0, 1.0), rivals.EscapingSGD),
    }[name]
    w = start(1)
    walk(cls([w], **recipe.settings), w, range(3))
    assert bool(w.isfinite().all())
