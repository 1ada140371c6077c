"""Precision of the tests of `adamplus.jax`."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture
def x64() -> Iterator[None]:
    """Let arrays be float64, as the references are."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def _compiles_fast() -> Iterator[None]:
    """Compile with few optimizations: tests compile many small functions and run each a few times."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
