"""Several processes, one vector. (What each way of splitting a model costs is the next issue's.)"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from adamplus import AdamPlus


def test_shares_ddp_and_fully_shard_on_two_processes():
    worker = Path(__file__).parent / "workers" / "shares.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(worker)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr


def test_a_process_group_needs_the_global_norm():
    group = object()
    with pytest.raises(ValueError, match='needs norm_scope="global"'):
        AdamPlus([nn.Parameter(torch.ones(1))], norm_scope="tensor", process_group=group)  # pyright: ignore[reportArgumentType]


def test_a_copy_without_its_process_group_is_refused():
    """A copy that lost it would train, silently, with the wrong norm."""
    import pickle

    group = torch.distributed.ProcessGroup(0, 1)  # pyright: ignore[reportCallIssue]
    optimizer = AdamPlus([nn.Parameter(torch.ones(1))], process_group=group)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(optimizer)
