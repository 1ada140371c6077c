"""Bounds on the time and memory of reading a file that is built to take much of both."""

import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SECONDS, BYTES = 2.0, 64 << 20  # tracemalloc makes everything several times slower


@contextmanager
def bounded() -> Iterator[None]:
    """Fail if the block takes more than `SECONDS` or more than `BYTES`; it is interrupted after some more seconds."""

    def interrupt(*_: object) -> None:
        pytest.fail(f"this takes more than {10 * SECONDS:g} seconds")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 10 * SECONDS)
    tracemalloc.start()
    began = time.process_time()
    try:
        yield
        assert time.process_time() - began < SECONDS
        assert tracemalloc.get_traced_memory()[1] < BYTES
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
