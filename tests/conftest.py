"""What every test starts from."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

os.environ.setdefault("TRITON_INTERPRET", "1")  # the fused kernels, on CPU tensors
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # more would start processes that import torch again

import hypothesis
import pytest
import torch
from ranks import Run, serving

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


def pytest_collection_finish() -> None:
    """Exempt what was imported from garbage collection: each full collection would visit 700,000 objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def _frozen_again() -> Iterator[None]:
    """Repeat gc.freeze() after a module of tests: `adamplus bench` ends with gc.unfreeze()."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """Run a script on several processes. A session's fixture starts their server before `_uncovered` is at work."""
    with serving() as started:
        yield started


@pytest.fixture(autouse=True)
def _uncovered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop coverage in tests marked `uncovered` and in their processes; it doubles the time of Triton's interpreter.

    pytest-cov's own marker `no_cover` has no effect in the workers of xdist: `patch = subprocess` has started a second
    measurement in them, which it does not know.
    """
    if not request.node.get_closest_marker("uncovered"):
        yield
        return
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    trace = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(trace)
