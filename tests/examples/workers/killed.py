"""Worker for torchrun: examples/train_fsdp.py, with one process killed at a chosen point.

KILL_AT has one word for each attempt that must fail:

- "step": rank 1, between its backward pass and its step;
- "shard": rank 1, before it writes its part of the second checkpoint;
- "metadata": rank 0, when all parts of this checkpoint are written, and the list of them is not;
- "rename": all ranks, before the folder of this checkpoint is renamed.
"""

import importlib.util
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint import FileSystemWriter

STEP, CHECKPOINT = 6, "writing-00000008"
EXAMPLE = Path(__file__).parents[3] / "examples" / "train_fsdp.py"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killing(function: Callable[..., Any], where: Callable[..., bool], after: bool = False) -> Callable[..., Any]:
    """A function that kills its process before, or after, it has done its work."""

    def killed(*args: Any, **keywords: Any) -> Any:
        deadly = where(*args, **keywords)
        if deadly and not after:
            die()
        result = function(*args, **keywords)
        if deadly:
            die()
        return result

    return killed


def arm(example: Any, kill_at: str) -> None:
    if kill_at == "step":
        example.AdamPlus.step = killing(
            example.AdamPlus.step, lambda optimizer: dist.get_rank() == 1 and optimizer.stats().step == STEP
        )
    elif kill_at == "shard":
        FileSystemWriter.write_data = killing(
            FileSystemWriter.write_data,
            lambda writer, *_: dist.get_rank() == 1 and Path(writer.path).name == CHECKPOINT,
        )
    elif kill_at == "metadata":
        FileSystemWriter.finish = killing(
            FileSystemWriter.finish, lambda writer, *_, **__: Path(writer.path).name == CHECKPOINT
        )
    else:
        assert kill_at == "rename"
        example.dcp.save = killing(
            example.dcp.save, lambda _, checkpoint_id: checkpoint_id.name == CHECKPOINT, after=True
        )


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("train_fsdp", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for kill_at in os.environ["KILL_AT"].split()[int(os.environ["TORCHELASTIC_RESTART_COUNT"]) :][:1]:
        arm(example, kill_at)
    example.main()
    os._exit(0)  # as the example does
