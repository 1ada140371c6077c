"""Runs on CUDA that repeat, bit for bit."""

import os
from typing import Any, cast

import torch


def repeat_bits() -> None:
    """Have this process use no kernel that adds in an order which the next run may not have.

    cuDNN chooses by rule and not by timing; gradients of embeddings are summed in an order; cuBLAS has the workspace
    that recurrent layers need to repeat, unless a product was computed before. What has no such kernel warns.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.use_deterministic_algorithms(True, warn_only=True)
    cast("Any", torch.utils.deterministic).fill_uninitialized_memory = False
