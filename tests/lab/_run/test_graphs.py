"""CUDA graphs, as far as a CPU can test them: errors of a capture."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from adamplus.lab._run.graphs import capture
from adamplus.lab.errors import InputError

BROKEN = "CUDA error: operation not permitted when stream is capturing"


def without_a_gpu(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Replace torch.cuda by a stand-in whose capture raises an error."""

    @contextmanager
    def graph(_: object) -> Iterator[None]:
        yield
        raise error

    stream = SimpleNamespace(wait_stream=lambda _: None)
    fake: dict[str, Any] = {"Stream": lambda: stream, "current_stream": lambda: stream, "CUDAGraph": object}
    fake |= {"stream": nullcontext, "graph": graph, "get_rng_state": lambda: None, "set_rng_state": lambda _: None}
    for name, value in fake.items():
        monkeypatch.setattr(torch.cuda, name, value)


def test_the_error_of_a_step_that_waits_for_the_gpu_names_a_remedy(monkeypatch: pytest.MonkeyPatch):
    without_a_gpu(monkeypatch, RuntimeError(BROKEN))
    with pytest.raises(InputError, match=rf"set capture = False in the task \({BROKEN}\)"):
        capture(lambda: None, nn.Linear(2, 2))


def test_other_errors_are_passed_on_unchanged(monkeypatch: pytest.MonkeyPatch):
    without_a_gpu(monkeypatch, torch.OutOfMemoryError("no room"))
    with pytest.raises(torch.OutOfMemoryError, match="no room"):
        capture(lambda: None, nn.Linear(2, 2))
