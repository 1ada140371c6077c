"""Models whose parameters are stepped, and lists of tensors that grow. They are on the meta device: without memory."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn

from ..models import GPT, ResNet18

Shape = tuple[int, ...]
META = torch.device("meta")
TOKENS = 50_257
"""GPT-2's vocabulary."""


def parameters(model: nn.Module) -> int:
    """The number of parameters in a model."""
    return sum(p.numel() for p in model.parameters())


def listed(shapes: Iterable[Shape]) -> nn.Module:
    """A model that is a list of tensors."""
    return nn.ParameterList(torch.empty(shape, device=META) for shape in shapes)


def resnet18() -> nn.Module:
    """The CIFAR ResNet18: 62 tensors, 11,173,962 parameters."""
    with META:
        return ResNet18()


def gpt(width: int, layers: int, context: int) -> nn.Module:
    """A GPT-2 with heads of 64; its embedding is also its output layer."""
    with META:
        return GPT(TOKENS, context, width=width, layers=layers, heads=width // 64)


def gpt_block(width: int) -> list[Shape]:
    """One layer of a GPT-2 of any width: two norms, attention and the feed-forward net."""
    attention = [(3 * width, width), (3 * width,), (width, width), (width,)]
    feed_forward = [(4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    return [(width,), (width,), *attention, (width,), (width,), *feed_forward]


def gpt_blocks(count: int) -> nn.Module:
    """Layers of a GPT-2 with about `count` parameters together; their width is 64 times their number."""
    layers = max(1, round((count / (12 * 64**2)) ** (1 / 3)))
    return listed(gpt_block(max(1, round(math.sqrt(count / (12 * layers))))) * layers)


def equal_tensors(count: int, tensors: int) -> nn.Module:
    """This many vectors of equal size with about `count` elements together."""
    return listed([(max(1, count // tensors),)] * tensors)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": resnet18,
    "many-small": lambda: listed([(64,)] * 10_000),
    "gpt2-124m": lambda: gpt(768, 12, 1024),
    "gpt-1.3b": lambda: gpt(2048, 24, 2048),
}
ON_CPU = ("resnet18", "many-small")  # models that a machine without a GPU measures within minutes
