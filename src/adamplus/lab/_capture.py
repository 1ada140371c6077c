"""CUDA graphs of training steps: everything that a step launches, launched by one call."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

WARM_UP = 3


def capture(function: Callable[[], Any], model: nn.Module, optimizer: Optimizer) -> Callable[[], None]:
    """A graph of `function`, ready to be replayed; model, optimizer and random numbers are left as they were.

    State that the optimizer makes on its first step begins as zeros, as that of all optimizers does whose contender
    says that its step can be captured.
    """
    before = {id(t): t.detach().clone() for t in _tensors(model, optimizer)}
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
        with torch.cuda.graph(graph):
            function()
    with torch.no_grad():
        for tensor in _tensors(model, optimizer):
            tensor.copy_(before[id(tensor)]) if id(tensor) in before else tensor.zero_()
    torch.cuda.set_rng_state(random)
    return graph.replay


def _tensors(model: nn.Module, optimizer: Optimizer) -> Iterator[Tensor]:
    """Everything that a step may change."""
    yield from model.parameters()
    yield from model.buffers()
    yield from (value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor))
    yield from (value for group in optimizer.param_groups for value in group.values() if isinstance(value, Tensor))
