"""Precision of the tests of `adamplus.jax`."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture
def x64() -> Iterator[None]:
    """Let arrays be float64, as the references are."""
    with jax.enable_x64(True):
        yield
