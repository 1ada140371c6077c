"""Running means of metrics, kept on the device: the host waits for them only at the end of a pass."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import InputError


def row_sums(means: Iterable[Tensor], rows: int) -> Tensor:
    """Convert means over a batch to sums over its rows; the number of rows comes last."""
    values = [mean.detach().double().reshape(()) for mean in means]
    return rows * torch.stack([*values, torch.ones_like(values[0])])


class RunningMeans:
    """Means by name over all added rows, in one float64 tensor that graphs can refer to."""

    def __init__(self, device: torch.device) -> None:
        self.names: tuple[str, ...] = ()
        self.sums = torch.zeros(0, dtype=torch.float64, device=device)

    def reset(self) -> None:
        """Start another pass."""
        self.sums.zero_()

    def add(self, names: tuple[str, ...], sums: Tensor) -> None:
        """Add the `row_sums` of a batch."""
        if not self.names:
            self.names, self.sums = names, torch.zeros_like(sums)
        if names != self.names:
            raise InputError(
                f"the metrics are {', '.join(self.names)} for one batch and {', '.join(names)} for another: "
                "a task's metrics() must return the same names in the same order for every batch"
            )
        self.sums += sums

    def compute(self) -> dict[str, float]:
        """Means over all rows of the pass, of all ranks. The host waits for the device here."""
        if dist.is_initialized():
            dist.all_reduce(self.sums)
        *sums, rows = self.sums.tolist()
        return {name: value / rows for name, value in zip(self.names, sums, strict=True)}
