"""TensorBoard event files, which repeat a run's metrics."""

from pathlib import Path
from typing import Any


class Events:
    """Writes the metrics of each epoch as scalars; TensorBoard drops later epochs that an earlier attempt wrote."""

    def __init__(self, folder: Path, epoch: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self.writer: Any = SummaryWriter(str(folder), purge_step=epoch + 1)

    def add(self, line: dict[str, float]) -> None:
        """Write the metrics of an epoch."""
        for name, value in line.items():
            if name != "epoch":
                self.writer.add_scalar(name, value, line["epoch"])

    def close(self) -> None:
        """Write everything that is buffered, and close the file."""
        self.writer.close()
