"""What it takes that runs repeat, bit for bit."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums depend on the number of threads; numbers must not, on how many a machine has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def prepare_process(device: str) -> None:
    """Set this process up for runs on a device; their numbers depend on it.

    Sums depend on the number of threads, which must not depend on how many workers share the machine. CUDA graphs and
    random numbers belong to the current device.
    """
    if device == "cpu":
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(device)


def make_deterministic() -> None:
    """On CUDA, have this process use no kernel that adds in an order which the next run may not have.

    cuDNN chooses by rule and not by timing; gradients of embeddings are summed in an order; cuBLAS has the workspace
    that recurrent layers need to repeat, unless a product was computed before. What has no such kernel warns.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.use_deterministic_algorithms(True, warn_only=True)
    cast("Any", torch.utils.deterministic).fill_uninitialized_memory = False
