"""Lists of parameter shapes of real models, and lists that grow."""

import math
from collections.abc import Callable

Shapes = list[tuple[int, ...]]


def parameters(shapes: Shapes) -> int:
    """The number of parameters in tensors of these shapes."""
    return sum(math.prod(shape) for shape in shapes)


def resnet18() -> Shapes:
    """The CIFAR ResNet18: 62 tensors, 11,173,962 parameters."""
    shapes: Shapes = [(64, 3, 3, 3), (64,), (64,)]
    width = 64
    for stage in (64, 128, 256, 512):
        for block in range(2):
            shapes += [(stage, width, 3, 3), (stage,), (stage,), (stage, stage, 3, 3), (stage,), (stage,)]
            if block == 0 and stage != 64:
                shapes += [(stage, width, 1, 1), (stage,), (stage,)]
            width = stage
    return [*shapes, (10, 512), (10,)]


def gpt_block(width: int) -> Shapes:
    """One layer of a GPT-2: two norms, attention and the feed-forward net."""
    attention = [(3 * width, width), (3 * width,), (width, width), (width,)]
    feed_forward = [(4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    return [(width,), (width,), *attention, (width,), (width,), *feed_forward]


def gpt(width: int, layers: int, context: int) -> Shapes:
    """A GPT-2 with 50,257 tokens; its embedding is also its output layer."""
    return [(50257, width), (context, width), *(gpt_block(width) * layers), (width,), (width,)]


def gpt_blocks(count: int) -> Shapes:
    """Layers of a GPT-2 with about `count` parameters together; their width is 64 times their number."""
    layers = max(1, round((count / (12 * 64**2)) ** (1 / 3)))
    return gpt_block(max(1, round(math.sqrt(count / (12 * layers))))) * layers


def equal_tensors(count: int, tensors: int) -> Shapes:
    """This many vectors of equal size with about `count` elements together."""
    return [(max(1, count // tensors),)] * tensors


MODELS: dict[str, Callable[[], Shapes]] = {
    "resnet18": resnet18,
    "many-small": lambda: [(64,)] * 10_000,
    "gpt2-124m": lambda: gpt(768, 12, 1024),
    "gpt-1.3b": lambda: gpt(2048, 24, 2048),
}
ON_CPU = ("resnet18", "many-small")  # lists that a machine without a GPU measures within minutes
