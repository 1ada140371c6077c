"""Run by torchrun: examples/train_fsdp.py, killed where KILL_AT says: a word for each attempt that must fail.

"step": rank 1, between its backward pass and its step. While the second checkpoint is written, all of them: "shard",
when rank 0 may have written its part and rank 1 has not; "metadata", when all parts are there and no list of them;
"rename", when only the folder's name is missing.
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
    """The function, which kills its process before it does anything, or when it has done everything."""

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
    os._exit(0)  # as the example itself
