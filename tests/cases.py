"""Tables of optimizers and settings that tests iterate over, and helpers that compare two runs."""

import io
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from adamplus import NIGT, AdamPlus, AdamPlusReference, NAdamPlus

# name → class, and the powers that make the reference the same method
FAMILY: dict[str, tuple[type[AdamPlus], dict[str, Any]]] = {
    "adam_plus": (AdamPlus, {"beta_power": 1.0, "norm_power": 0.5}),
    "nadam_plus": (NAdamPlus, {"beta_power": 4 / 3, "norm_power": 2 / 3}),
    "nigt": (NIGT, {"beta_power": 0.0, "norm_power": 1.0}),
}
EXECUTIONS: dict[str, dict[str, Any]] = {
    "plain": {"foreach": False},
    "foreach": {"foreach": True},
    "capturable": {"capturable": True},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "coupled": {"weight_decay": 0.05},
    "decoupled": {"weight_decay": 0.01, "decoupled_weight_decay": True},
    "maximize": {"maximize": True, "weight_decay": 0.05},
    "group": {"norm_scope": "group"},
    "tensor": {"norm_scope": "tensor"},
    "large beta": {"beta": 0.9},
    "beta 1": {"beta": 1.0},
    "gradients at w": {"lookahead": 0.0},
    "one step ahead": {"lookahead": 1.0, "beta": 0.3},
    "a step and a half": {"lookahead": 1.5, "norm_scope": "tensor"},
}


def thinned(*columns: Iterable[Any]) -> list[Any]:
    """All combinations of the columns' values, for `parametrize`. Most of them are marked `slow`, for `make test-all`.

    Of n columns, `make test` has all combinations of any n − 1: the sum of a combination's positions in its columns is
    divisible by the length of the shortest column, so that the others leave a value of it, and exactly one.
    """
    lists = [list(column) for column in columns]
    shortest = min(map(len, lists))
    return [
        pytest.param(*(values[i] for values, i in zip(lists, at, strict=True)), marks=[pytest.mark.slow] * is_slow)
        for at in itertools.product(*(range(len(values)) for values in lists))
        for is_slow in [sum(at) % shortest != 0]
    ]


def pair(name: str, groups: Sequence[dict[str, Any]], execution: dict[str, Any]) -> tuple[AdamPlus, AdamPlusReference]:
    """An optimizer of the family over `groups`, and its reference over float64 copies of the same parameters."""
    cls, powers = FAMILY[name]
    groups = [{"lr": 0.1, **group} for group in groups]
    copies = [{**group, "params": [float64_copy(p) for p in group["params"]]} for group in groups]
    return cls([dict(group) for group in groups], **execution), AdamPlusReference(copies, **powers)


def float64_copy(p: Tensor) -> nn.Parameter:
    return nn.Parameter(p.detach().to(torch.complex128 if p.is_complex() else torch.float64, copy=True))


def params(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def give(optimizer: torch.optim.Optimizer, grads: Sequence[Tensor | None]) -> None:
    for p, g in zip(params(optimizer), grads, strict=True):
        p.grad = None if g is None else g.to(p.dtype, copy=True)


def values(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p.detach().clone() for p in params(optimizer)]


def difference(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    """max |a − b| over the largest |b| of the same tensor."""
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        if y.numel():
            x = x.to(y.dtype)
            worst = max(worst, float((x - y).abs().max() / y.abs().max().clamp(min=torch.finfo(y.dtype).tiny)))
    return worst


def through_a_file(obj: Any) -> Any:
    """Save and load an object as a checkpoint, with weights_only=True. The result shares no memory with it."""
    buffer = io.BytesIO()
    torch.save(obj, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def small_model(seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)


def batch(step: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, 6, generator=generator, dtype=dtype)
    return x, x.sin().sum(1, keepdim=True) + 0.1 * torch.randn(16, 1, generator=generator, dtype=dtype)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """A plain training loop. The batch of a step depends only on the step's number."""
    dtype = next(model.parameters()).dtype
    for i in steps:
        x, y = batch(i, dtype)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def allocations(function: Callable[[], Any]) -> list[int]:
    """Sizes in bytes of all memory that torch's CPU allocator returned while `function` ran."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        function()
    events: Any = profile.profiler.kineto_results.events()  # pyright: ignore[reportOptionalMemberAccess]
    return [e.nbytes() for e in events if e.name() == "[memory]" and e.nbytes() > 0]


class NoHostRead(TorchDispatchMode):
    """Raise if a tensor's value is read by `.item()`, `float()`, `if` or `print`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            raise AssertionError("the host read a value")
        return func(*args, **(kwargs or {}))


LAYOUTS = ["scalar", "empty", "vector", "matrix", "transposed", "strided", "channels last", "complex"]


def parameter(layout: str, dtype: torch.dtype) -> nn.Parameter:
    match layout:
        case "scalar":
            t = torch.randn(())
        case "empty":
            t = torch.randn(0, 3)
        case "vector":
            t = torch.randn(5)
        case "matrix":
            t = torch.randn(3, 4)
        case "transposed":
            t = torch.randn(4, 3).t()
        case "strided":
            t = torch.randn(6, 5)[::2, 1::2]
        case "channels last":
            t = torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last)
        case _:
            # torch does not compute in complex32, so complex parameters are complex64 and complex128
            t = torch.randn(4, dtype=torch.complex64)
            return nn.Parameter(t.to(torch.complex128 if dtype == torch.float64 else torch.complex64))
    t = t.to(dtype) if layout != "strided" else torch.empty(6, 5, dtype=dtype).copy_(torch.randn(6, 5))[::2, 1::2]
    return nn.Parameter(t)


settings = st.fixed_dictionaries(
    {
        "lr": st.floats(1e-3, 0.5),
        "beta": st.one_of(st.just(1.0), st.floats(0.05, 0.99)),  # 1 − β is rounded, too
        "weight_decay": st.sampled_from([0.0, 0.02]),  # lr·weight_decay may be 0.01
        "decoupled_weight_decay": st.booleans(),
        "maximize": st.booleans(),
        "norm_scope": st.sampled_from(["global", "group", "tensor"]),
        "eps": st.sampled_from([0.0, 1e-8, 1e-2]),
        "lookahead": st.sampled_from([None, None, 0.0, 1.0, 2.5]),
    }
)
dtypes = st.sampled_from([torch.float64, torch.float32, torch.float32, torch.bfloat16, torch.float16])
layouts = st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=4)
seeds = st.integers(0, 2**32 - 1)
