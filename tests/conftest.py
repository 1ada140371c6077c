"""What every test starts from."""

import hypothesis
import pytest
import torch

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
