"""Tests that the methods of Table 1, moved for all candidates at once, are the methods of `adamplus.rivals`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from adamplus import AdamPlusReference, rivals
from adamplus.lab.measured_theory._methods import Rule, Sampler, rules
from adamplus.lab.measured_theory.walks import OptimizerWalk
from adamplus.theory.problems import DoubleWell

RUNS = 3


class SameDraws(Sampler):
    """Draws of the noise as `OptimizerWalk` has them: two normal numbers per coordinate, at one point or at two."""

    def _at(self, batch: float) -> Callable[[Tensor], Tensor]:
        a, b = self.problem.draw(self.runs, int(batch), self.generator)
        return lambda x: self.problem.gradient(x, (a.repeat(len(x) // self.runs, 1), b.repeat(len(x) // self.runs, 1)))

    def gradient(self, x: Tensor, batch: float | Tensor) -> Tensor:
        return self._at(float(batch if isinstance(batch, int) else torch.as_tensor(batch).flatten()[0]))(x)

    def pair(self, x: Tensor, y: Tensor, batch: float) -> tuple[Tensor, Tensor]:
        at = self._at(batch)
        return at(x), at(y)


def settings_of(**columns: tuple[float, float]) -> list[dict[str, Any]]:
    return [{name: values[i] for name, values in columns.items()} for i in range(2)]


ROWS = {"norm_scope": "row"}
CASES: dict[str, tuple[Callable[[Tensor], Rule], Callable[[list[nn.Parameter]], Any], tuple[int, ...]]] = {
    "amsgrad": (
        lambda x: rules.AdamType(x, settings_of(lr=(0.9, 0.3), gain=(0.4, 0.1)), 2, "amsgrad"),
        lambda p: rivals.GeneralizedAdam(p, lr=0.3, betas=(0.9, 0.999), second_moment="amsgrad"),
        (2,),
    ),
    "adafom": (
        lambda x: rules.AdamType(x, settings_of(lr=(0.9, 0.3), gain=(0.4, 0.1)), 2, "adafom"),
        lambda p: rivals.GeneralizedAdam(p, lr=0.3, betas=(0.9, 0.999), second_moment="adafom"),
        (2,),
    ),
    "padam": (
        lambda x: rules.AdamType(x, settings_of(lr=(0.9, 0.3), gain=(0.4, 0.1)), 2, "padam"),
        lambda p: rivals.PAdam(p, lr=0.3, betas=(0.9, 0.999)),
        (2,),
    ),
    "stagewise": (
        lambda x: rules.StagewiseAdaGrad(x, settings_of(lr=(90.0, 300.0), gamma=(0.1, 0.5)), 2, 1.5),
        lambda p: rivals.StagewiseAdaGrad(p, lr=300.0, gamma=0.5, bound=1.5, norm_scope="row"),
        (2,),
    ),
    "sgd": (
        lambda x: rules.EscapingSGD(x, settings_of(lr=(0.9, 0.2), radius=(1.0, 2.0), ball_steps=(30, 20)), 2),
        lambda p: rivals.EscapingSGD(p, lr=0.2, radius=2.0, ball_steps=20, norm_scope="row"),
        (2,),
    ),
    "spider": (
        lambda x: rules.SPIDER(x, settings_of(lr=(0.9, 0.2), length=(1.0, 0.3)), (9, 2), 7),
        lambda p: rivals.SPIDER(p, lr=0.2, length=0.3, period=7, norm_scope="row"),
        (9, 2),
    ),
    "storm": (
        lambda x: rules.STORM(x, settings_of(lr=(0.9, 0.5), c=(1.0, 10.0), w=(0.1, 0.2)), 2),
        lambda p: rivals.STORM(p, lr=0.5, w=0.2, c=10.0, norm_scope="row"),
        (2,),
    ),
    "snvrg": (
        lambda x: rules.SNVRG(x, settings_of(lr=(0.9, 0.2)), (16, 8, 4, 2), (2, 2, 4)),
        lambda p: rivals.SNVRG(p, lr=0.2, loops=(2, 2, 4)),
        (16, 8, 4, 2),
    ),
    "prox-sarah": (
        lambda x: rules.ProxSARAH(x, settings_of(lr=(0.9, 0.4 * 0.7)), (16, 2), 6),
        lambda p: rivals.ProxSARAH(p, lr=0.4, gamma=0.7, inner=5),
        (16, 2),
    ),
}


@pytest.mark.parametrize("method", CASES)
def test_a_candidate_takes_the_steps_of_the_rival(method: str):
    """The second of two candidates, so that rows and columns of settings must match. 80 steps end several stages."""
    make, optimizer, batches = CASES[method]
    problem = DoubleWell(4)
    sampler = SameDraws(problem, RUNS, 5)
    rule = make(sampler.start)
    generator = torch.Generator().manual_seed(5)
    walk = OptimizerWalk(problem, problem.start(RUNS, generator), optimizer, batches, generator)
    for _ in range(40):
        rule.step(sampler)
        walk.step()
        torch.testing.assert_close(rule.at[RUNS:], walk.point, rtol=1e-11, atol=1e-11)  # rounding of the same formula
    rule.keep(np.array([False, True]))
    for _ in range(40):
        rule.step(sampler)
        walk.step()
        torch.testing.assert_close(rule.at, walk.point, rtol=1e-11, atol=1e-11)
    assert list(rule.evaluations) == [walk.evaluations]


@pytest.mark.parametrize(("power", "norm_power", "eps"), [(1.0, 0.5, 1e-8), (4 / 3, 2 / 3, 0.7), (1.0, 1.0, 1e-8)])
@pytest.mark.parametrize("extrapolate", [True, False])
def test_a_candidate_of_the_family_takes_the_steps_of_the_reference(
    power: float, norm_power: float, eps: float, extrapolate: bool
):
    problem, lr, beta = DoubleWell(4), 0.3, 0.2
    sampler = SameDraws(problem, RUNS, 5)
    chosen = settings_of(lr=(0.1, lr), beta=(0.2, beta), eps=(1.0, eps))
    rule = rules.Family(sampler.start, chosen, 5, beta_power=power, norm_power=norm_power, extrapolate=extrapolate)
    generator = torch.Generator().manual_seed(5)
    parameters = [nn.Parameter(w) for w in problem.start(RUNS, generator)]
    more: dict[str, Any] = {"lr": lr, "beta": beta, "beta_power": power, "norm_power": norm_power, "eps": eps}
    references = [AdamPlusReference([p], **more, lookahead=None if extrapolate else 0.0) for p in parameters]
    for _ in range(30):
        rule.step(sampler)
        a, b = problem.draw(RUNS, 5, generator)
        for run, (parameter, reference) in enumerate(zip(parameters, references, strict=True)):
            parameter.grad = problem.gradient(parameter.detach()[None], (a[run][None], b[run][None]))[0]
            reference.step()
        torch.testing.assert_close(
            rule.at[RUNS:], torch.stack([p.detach() for p in parameters]), rtol=1e-11, atol=1e-11
        )
    w = torch.stack([reference.state[p]["w"] for p, reference in zip(parameters, references, strict=True)])
    torch.testing.assert_close(rule.output[RUNS:], w, rtol=1e-11, atol=1e-11)


def test_without_the_power_of_the_norm_the_family_is_sgd_and_its_average():
    """But for the first step, which is 1/β times as long: here that is undone by starting SGD from the family's ŵ."""
    problem, lr, beta = DoubleWell(4), 0.3, 0.2
    sampler = SameDraws(problem, RUNS, 5)
    family = rules.Family(sampler.start, [{"lr": lr, "beta": beta, "eps": 1e-8}], 5, beta_power=1.0, norm_power=0.0)
    family.step(sampler)
    sgd = rules.SGD(family.at, [{"lr": lr * beta}], 5)
    same = SameDraws(problem, RUNS, 5)
    same.generator.set_state(sampler.generator.get_state())
    average = family.w
    for _ in range(30):
        family.step(sampler)
        sgd.step(same)
        average = average + beta * (sgd.at - average)
        torch.testing.assert_close(family.at, sgd.at, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(family.w, average, rtol=1e-11, atol=1e-11)


def test_gradients_of_a_batch_have_the_mean_and_the_variance_of_the_problem():
    problem = DoubleWell(4, sigma=2.0)
    sampler = Sampler(problem, 2, 0)
    x = sampler.start.repeat(2, 1)
    batches = torch.tensor([1.0, 16.0])[:, None, None]
    noise = torch.stack([sampler.gradient(x, batches) - problem.gradient(x) for _ in range(4000)]).view(4000, 2, 2, 4)
    torch.testing.assert_close(noise[:, 0] / 4, noise[:, 1])  # the same noise for every candidate
    variance = noise.square().sum(3).mean((0, 2))
    torch.testing.assert_close(variance, torch.tensor([4.0, 0.25], dtype=x.dtype), rtol=0.05, atol=0)  # 32,000 squares
    here, there = sampler.pair(x, x, 4)
    assert torch.equal(here, there)  # the same samples
