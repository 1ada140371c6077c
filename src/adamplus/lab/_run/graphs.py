"""CUDA graphs of training steps and evaluations: everything that one launches, launched by one call."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..errors import InputError

WARM_UP = 3


def compile_static(function: Callable[..., Any]) -> Any:
    """For one shape; small kernels that do not wait for each other, such as casts of weights, are one launch."""
    return torch.compile(function, dynamic=False, options={"combo_kernels": True})


def capture(function: Callable[[], Any], model: nn.Module, optimizer: Optimizer | None = None) -> Callable[[], None]:
    """A graph of `function`, ready to be replayed; model, optimizer and random numbers are left as they were.

    State that the optimizer makes on its first step begins as zeros, as that of all optimizers does whose contender
    says that its step can be captured.
    """
    before = {place: tensor.detach().clone() for place, tensor in _tensors(model, optimizer)}
    random = torch.cuda.get_rng_state()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # capturable=True warns of steps outside of a graph, as a warm-up must take
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                function()
        torch.cuda.current_stream().wait_stream(side)
        try:
            with torch.cuda.graph(graph):
                function()
        except RuntimeError as error:
            if "captur" not in str(error):
                raise
            raise InputError(
                "this cannot be one CUDA graph: something in model, loss or metrics asks the host (by .item(), "
                f"an if on values, a copy to the CPU); mend that, or set capture = False in the task ({error})"
            ) from error
    with torch.no_grad():
        for place, tensor in _tensors(model, optimizer):
            tensor.copy_(before[place]) if place in before else tensor.zero_()
    torch.cuda.set_rng_state(random)

    def replay(_: object = function) -> None:  # held, for the graph reads the memory of what `function` refers to
        graph.replay()

    return replay


def _tensors(model: nn.Module, optimizer: Optimizer | None) -> Iterator[tuple[Any, Tensor]]:
    """Everything that a step may change, by its place: a step may also put another tensor there."""
    yield from model.named_parameters()
    yield from model.named_buffers()
    owners = [] if optimizer is None else [*optimizer.state.items(), *enumerate(optimizer.param_groups)]
    for owner, content in owners:
        yield from (((owner, name), value) for name, value in content.items() if isinstance(value, Tensor))
