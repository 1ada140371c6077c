"""Plain execution does operations on scalars of a group once, and not once for each tensor."""

from typing import Any

import pytest
import torch
from cases import give
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from adamplus import AdamPlus


class Count(TorchDispatchMode):
    """Count the operations that torch dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        return func(*args, **(kwargs or {}))


def operations(tensors: int, settings: dict[str, Any]) -> int:
    optimizer = AdamPlus([nn.Parameter(torch.ones(3)) for _ in range(tensors)], foreach=False, **settings)
    give(optimizer, [torch.ones(3)] * tensors)
    optimizer.step()
    give(optimizer, [torch.ones(3)] * tensors)
    with Count() as count:
        optimizer.step()
    return count.operations


@pytest.mark.parametrize(
    ("settings", "most"),
    [({}, 20), ({"capturable": True}, 24), ({"lr": torch.tensor(0.1), "beta": torch.tensor(0.1)}, 22)],
    ids=["numbers", "capturable", "tensors"],
)
def test_each_further_tensor_adds_only_its_own_operations(settings: dict[str, Any], most: int):
    assert operations(5, settings) - operations(4, settings) <= most
