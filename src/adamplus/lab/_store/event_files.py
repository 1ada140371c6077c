"""TensorBoard event files of a run, beside its metrics."""

from pathlib import Path
from typing import Any


class Events:
    """Writes an epoch's metrics as scalars; what an earlier attempt wrote of later epochs is dropped."""

    def __init__(self, folder: Path, epoch: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self.writer: Any = SummaryWriter(str(folder), purge_step=epoch + 1)

    def add(self, line: dict[str, float]) -> None:
        """Add a line of metrics."""
        for name, value in line.items():
            if name != "epoch":
                self.writer.add_scalar(name, value, line["epoch"])

    def close(self) -> None:
        """Write what is still held back."""
        self.writer.close()
