"""Files that are damaged or built to do harm: changes at any place, and bounds on what reading them takes."""

import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import strategies as st

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


CHANGES = st.lists(st.tuples(st.integers(0, 1000), st.binary(max_size=5), st.integers(0, 5)), max_size=4)
"""Changes of a file: at each place, some bytes are put in and others dropped."""


@contextmanager
def changed(path: Path, changes: list[tuple[int, bytes, int]]) -> Iterator[None]:
    """Change a file within the block."""
    content = whole = path.read_bytes()
    for place, new, dropped in changes:
        at = place % (len(content) + 1)
        content = content[:at] + new + content[at + dropped :]
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(whole)
