"""What every test starts from."""

import os
from contextlib import suppress

os.environ.setdefault("TRITON_INTERPRET", "1")  # the fused kernels, on CPU tensors

import hypothesis
import pytest
import torch

with suppress(ModuleNotFoundError):  # of expecttest, where torch's own tests are not to be run
    import torch.testing._internal.common_utils  # loads a hypothesis profile of its own: before ours

hypothesis.settings.register_profile(
    "quick",
    deadline=None,  # the first example compiles kernels and warms caches
    derandomize=True,  # CI finds the same examples every time; `thorough` looks for new ones
    max_examples=200,
    stateful_step_count=30,
)
hypothesis.settings.register_profile(
    "thorough", deadline=None, max_examples=2000, stateful_step_count=60, print_blob=True
)
hypothesis.settings.load_profile("quick")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
