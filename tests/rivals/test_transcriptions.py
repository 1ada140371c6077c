"""Tests of every rival against a plain transcription of its algorithm, with the loops of its paper, in float64."""

from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from torch import Tensor, nn

from adamplus import rivals

Draw = Callable[[int], Tensor]
STEPS, DIM = 36, 5
LARGE, SMALL = 7, 2


def gradient(x: Tensor, sample: Tensor) -> Tensor:
    """Mean over the sample's rows ξ of ∇(Σ_i cos(ξ_i x_i) + ξ·x + ‖x‖²/20)."""
    return (sample - sample * torch.sin(sample * x)).mean(0) + x / 10


def loss(x: Tensor, sample: Tensor) -> Tensor:
    return (torch.cos(sample * x) + sample * x).sum(1).mean() + (x**2).sum() / 20


def drawing(seed: int) -> Draw:
    generator = torch.Generator().manual_seed(seed)
    return lambda count: torch.randn(count, DIM, generator=generator, dtype=torch.float64)


def spider(x: Tensor, draw: Draw, lr: float, length: float, period: int) -> Tensor:
    v = before = x
    for k in range(STEPS):
        if k % period == 0:
            v = gradient(x, draw(LARGE))
        else:
            sample = draw(SMALL)
            v = gradient(x, sample) - gradient(before, sample) + v
        before = x
        x = x - min(length / float(v.norm()), lr) * v
    return x


def storm(x: Tensor, draw: Draw, lr: float, w: float, c: float) -> Tensor:
    d = gradient(x, draw(SMALL))
    total = float(d.norm()) ** 2
    for t in range(STEPS):
        eta = lr / (w + total) ** (1 / 3)
        x, before = x - eta * d, x
        if t == STEPS - 1:
            break
        a = min(1.0, c * eta**2)
        sample = draw(SMALL)
        total += float(gradient(x, sample).norm()) ** 2
        d = gradient(x, sample) + (1 - a) * (d - gradient(before, sample))
    return x


def prox_sarah(x: Tensor, draw: Draw, lr: float, gamma: float, inner: int, threshold: float) -> Tensor:
    taken = 0
    while True:
        w, v, before = x, gradient(x, draw(LARGE)), x
        for t in range(inner + 1):
            if t > 0:
                sample = draw(SMALL)
                v = v + gradient(w, sample) - gradient(before, sample)
            moved = w - lr * v
            hat = moved.sign() * (moved.abs() - lr * threshold).clamp(min=0)
            before, w = w, (1 - gamma) * w + gamma * hat
            taken += 1
            if taken == STEPS:
                return w
        x = w


def snvrg(x: Tensor, draw: Draw, lr: float, loops: tuple[int, ...]) -> Tensor:
    levels, epoch = len(loops), 1
    for loop in loops:
        epoch *= loop
    points, gradients = [x] * (levels + 1), [x] * (levels + 1)
    for step in range(STEPS):
        t, r = step % epoch, levels
        for j in range(levels, -1, -1):
            product = 1
            for loop in loops[j:]:
                product *= loop
            if t % product == 0:
                r = j
        for level in range(r, levels + 1):
            points[level] = x
        sample = draw(LARGE - r)
        gradients[r] = gradient(points[r], sample) - (gradient(points[r - 1], sample) if r > 0 else 0)
        for level in range(r + 1, levels + 1):
            gradients[level] = torch.zeros_like(x)
        x = x - lr * sum(gradients)
    return x


def generalized_adam(
    x: Tensor, draw: Draw, lr: float, betas: tuple[float, float], second_moment: str, decay: bool, eps: float
) -> Tensor:
    m, v, v_hat, past = torch.zeros(DIM), torch.zeros(DIM), torch.zeros(DIM), []
    for t in range(1, STEPS + 1):
        g = gradient(x, draw(SMALL))
        past.append(g)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        v_hat = torch.maximum(v_hat, v)
        if second_moment == "adafom":
            v_hat = sum(g**2 for g in past) / torch.tensor(t)
        x = x - (lr / t**0.5 if decay else lr) * m / (v_hat**0.5 + eps)
    return x


def padam(x: Tensor, draw: Draw, lr: float, betas: tuple[float, float], power: float, eps: float) -> Tensor:
    m, v, v_hat = torch.zeros(DIM), torch.zeros(DIM), torch.zeros(DIM)
    for _ in range(STEPS):
        g = gradient(x, draw(SMALL))
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        v_hat = torch.maximum(v_hat, v)
        x = x - lr * m / (v_hat**0.5 + eps) ** (2 * power)
    return x


def stagewise(x: Tensor, draw: Draw, lr: float, gamma: float, bound: float, stage_steps: int | None) -> Tensor:
    taken = 0
    for s in range(1, STEPS + 1):
        start, past, visited, eta = x, [], [], lr / s**0.5
        while True:
            visited.append(x)
            past.append(gradient(x, draw(SMALL)) + (x - start) / gamma)
            lengths = torch.stack(past).norm(dim=0)
            x = start - eta * sum(past) / (bound + lengths)
            taken += 1
            needed = 24 * gamma / eta * max((bound + float(lengths.max())) / 2, float(lengths.sum()))
            if len(past) >= (needed if stage_steps is None else stage_steps * s):
                break
            if taken == STEPS:
                return x
        x = torch.stack(visited).mean(0)
        if taken == STEPS:
            return x
    raise AssertionError("a stage has at least one step")


def escaping_sgd(x: Tensor, draw: Draw, lr: float, radius: float, ball_steps: int) -> Tensor:
    start, visited = x, []
    for _ in range(STEPS):
        visited.append(x)
        x = x - lr * gradient(x, draw(SMALL))
        if float((x - start).norm()) > radius:
            start, visited = x, []
        elif len(visited) == ball_steps:
            return torch.stack(visited).mean(0)
    return x


def soft(threshold: float) -> Callable[[Tensor, float], Tensor]:
    return lambda x, eta: x.sign() * (x.abs() - eta * threshold).clamp(min=0)


rate = st.floats(0.01, 0.5)
betas = st.tuples(st.floats(0, 0.95), st.floats(0, 0.999))
eps = st.sampled_from([1e-8, 1e-2])
RIVALS: dict[str, tuple[Callable[..., Any], Callable[..., Tensor], dict[str, st.SearchStrategy[Any]]]] = {
    "SPIDER": (
        rivals.SPIDER,
        spider,
        {"lr": rate, "length": st.floats(0.01, 1.0), "period": st.integers(1, 9)},
    ),
    "STORM": (rivals.STORM, storm, {"lr": rate, "w": st.floats(0.1, 10.0), "c": st.floats(0.0, 20.0)}),
    "Prox-SARAH": (
        lambda params, threshold, **other: rivals.ProxSARAH(params, prox=soft(threshold), **other),
        prox_sarah,
        {
            "lr": rate,
            "gamma": st.floats(0.1, 1.0),
            "inner": st.integers(1, 7),
            "threshold": st.sampled_from([0.0, 0.5]),
        },
    ),
    "SNVRG": (
        rivals.SNVRG,
        snvrg,
        {"lr": rate, "loops": st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)},
    ),
    "generalized Adam": (
        rivals.GeneralizedAdam,
        generalized_adam,
        {
            "lr": rate,
            "betas": betas,
            "second_moment": st.sampled_from(["amsgrad", "adafom"]),
            "decay": st.booleans(),
            "eps": eps,
        },
    ),
    "PAdam": (rivals.PAdam, padam, {"lr": rate, "betas": betas, "power": st.floats(0.05, 0.5), "eps": eps}),
    "stagewise AdaGrad": (
        rivals.StagewiseAdaGrad,
        stagewise,
        {
            "lr": st.floats(10, 40),
            "gamma": st.floats(0.3, 1.0),
            "bound": st.floats(5, 20),
            "stage_steps": st.sampled_from([None, None, 1, 3]),
        },
    ),
    "SGD": (
        rivals.EscapingSGD,
        escaping_sgd,
        {"lr": rate, "radius": st.floats(0.1, 3.0), "ball_steps": st.integers(1, 12)},
    ),
}


def samples(optimizer: Any) -> int:
    """Number of samples that the optimizer needs for its next step."""
    if isinstance(optimizer, rivals.SNVRG):
        return LARGE - optimizer.level_next
    return LARGE if getattr(optimizer, "large_batch_next", False) else SMALL


@pytest.mark.parametrize("name", RIVALS)
@hypothesis.settings(max_examples=40)
@hypothesis.given(data=st.data(), seed=st.integers(0, 2**32 - 1), grouped=st.booleans())
def test_a_rival_takes_the_steps_of_its_transcription(name: str, data: st.DataObject, seed: int, grouped: bool):
    make, transcription, strategies = RIVALS[name]
    settings = {key: data.draw(strategy, key) for key, strategy in strategies.items()}
    x0 = torch.randn(DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    w = [nn.Parameter(x0[:2].clone().reshape(1, 2)), nn.Parameter(x0[2:].clone())]
    optimizer = make([{"params": [p]} for p in w] if grouped else w, **settings)
    draw = drawing(seed + 1)
    for _ in range(STEPS):
        sample = draw(samples(optimizer))

        def closure(sample: Tensor = sample) -> Tensor:
            optimizer.zero_grad()
            value = loss(torch.cat([p.flatten() for p in w]), sample)
            value.backward()
            return value

        optimizer.step(closure)
        if name == "SGD" and bool(optimizer.finished):
            break
    expected = transcription(x0, drawing(seed + 1), **settings)
    walked = torch.cat([p.detach().flatten() for p in w])
    # 36 steps in float64 in another order of operations: each amplifies rounding errors by at most |1 + lr · 10|
    torch.testing.assert_close(walked, expected, rtol=1e-8, atol=1e-8)


def test_stages_end_by_the_papers_rule_in_the_compared_runs():
    """Otherwise the comparison would cover only one stage."""
    w = nn.Parameter(torch.ones(DIM, dtype=torch.float64))
    optimizer = rivals.StagewiseAdaGrad([w], lr=25.0, gamma=0.5, bound=20)
    draw = drawing(0)
    for _ in range(STEPS):
        w.grad = gradient(w.detach(), draw(SMALL))
        optimizer.step()
    assert 2 <= int(optimizer.param_groups[0]["stage"]) < 10
