"""Settings of the process that make runs repeat, bit for bit."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: sums depend on the number of threads, and numbers must not depend on the machine's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def prepare_process(device: str) -> None:
    """Set this process up for runs on a device.

    Sums depend on the number of threads: it must not depend on how many workers share the machine. CUDA graphs and
    random numbers belong to the current device.
    """
    if device == "cpu":
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(device)


def make_deterministic() -> None:
    """Make CUDA use kernels that sum in the same order in every run.

    cuDNN selects kernels by rule, not by timing. Gradients of embeddings are summed in a fixed order. cuBLAS gets the
    workspace without which recurrent layers do not repeat, unless a product was computed before. An operation that has
    no deterministic kernel warns.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.use_deterministic_algorithms(True, warn_only=True)
    cast("Any", torch.utils.deterministic).fill_uninitialized_memory = False
