"""Means over batches, summed up where the batches are: nobody waits for them before the end of a pass."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import InputError


def row_sums(means: Iterable[Tensor], rows: int) -> Tensor:
    """Means over a batch as sums over its rows, and the number of rows."""
    values = [mean.detach().double().reshape(()) for mean in means]
    return rows * torch.stack([*values, torch.ones_like(values[0])])


class RunningMeans:
    """Means by name over all that was added, in one float64 tensor that stays in its place."""

    def __init__(self, device: torch.device) -> None:
        self.names: tuple[str, ...] = ()
        self.sums = torch.zeros(0, dtype=torch.float64, device=device)

    def reset(self) -> None:
        """Begin another pass."""
        self.sums.zero_()

    def add(self, names: tuple[str, ...], sums: Tensor) -> None:
        """Add what `sums` made of a batch."""
        if not self.names:
            self.names, self.sums = names, torch.zeros_like(sums)
        if names != self.names:
            raise InputError(
                f"metrics are {', '.join(self.names)} of one batch and {', '.join(names)} of another: "
                "a task's metrics() has the same names, in the same order, for all"
            )
        self.sums += sums

    def compute(self) -> dict[str, float]:
        """Over all rows of the pass, and of all ranks; here the host waits."""
        if dist.is_initialized():
            dist.all_reduce(self.sums)
        *sums, rows = self.sums.tolist()
        return {name: value / rows for name, value in zip(self.names, sums, strict=True)}
