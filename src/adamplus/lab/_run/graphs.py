"""CUDA graphs of training steps and evaluations: one call launches all kernels."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..errors import InputError

WARM_UP = 3


def compile_static(function: Callable[..., Any]) -> Any:
    """Compile a function for one shape; independent small kernels, such as casts of weights, become one launch."""
    return torch.compile(function, dynamic=False, options={"combo_kernels": True})


def capture(function: Callable[[], Any], model: nn.Module, optimizer: Optimizer | None = None) -> Callable[[], None]:
    """Capture a graph of `function`, and return a function that replays it.

    Model, optimizer and random numbers are left as they were. State that the optimizer creates in its first step is set
    to zeros, with which all optimizers begin whose contender declares their step capturable.
    """
    before = {place: tensor.detach().clone() for place, tensor in _tensors(model, optimizer)}
    random = torch.cuda.get_rng_state()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # capturable=True warns about steps outside a graph, which a warm-up needs
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
                "model, loss or metrics cannot be captured in a CUDA graph, because they wait for the GPU (by .item(), "
                f"an if on values, a copy to the CPU): remove that, or set capture = False in the task ({error})"
            ) from error
    with torch.no_grad():
        for place, tensor in _tensors(model, optimizer):
            tensor.copy_(before[place]) if place in before else tensor.zero_()
    torch.cuda.set_rng_state(random)

    def replay(_: object = function) -> None:  # keeps `function` alive: the graph reads tensors that it refers to
        graph.replay()

    return replay


def _tensors(model: nn.Module, optimizer: Optimizer | None) -> Iterator[tuple[Any, Tensor]]:
    """Every tensor that a step may change, with its name or key: a step may also replace the tensor itself."""
    yield from model.named_parameters()
    yield from model.named_buffers()
    owners = [] if optimizer is None else [*optimizer.state.items(), *enumerate(optimizer.param_groups)]
    for owner, content in owners:
        yield from (((owner, name), value) for name, value in content.items() if isinstance(value, Tensor))
