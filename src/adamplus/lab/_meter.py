"""Means over batches, summed up where the batches are: nobody waits for them before the end of a pass."""

import torch
import torch.distributed as dist
from torch import Tensor


class Meter:
    """Weighted means by name, in one float64 tensor that stays in its place."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.names: list[str] = []
        self.sums = torch.zeros(1, dtype=torch.float64, device=device)

    def reset(self) -> None:
        """Begin another pass."""
        self.sums.zero_()

    def add(self, means: dict[str, Tensor], weight: int) -> None:
        """Count the means over a batch of `weight` rows."""
        if not self.names:
            self.names = list(means)
            self.sums = torch.zeros(len(means) + 1, dtype=torch.float64, device=self.device)
        values = [mean.detach().double().reshape(()) for mean in means.values()]
        self.sums += weight * torch.stack([*values, torch.ones_like(values[0])])

    def means(self) -> dict[str, float]:
        """Over all rows of the pass, and of all ranks; here the host waits."""
        if dist.is_initialized():
            dist.all_reduce(self.sums)
        *sums, weight = self.sums.tolist()
        return {name: value / weight for name, value in zip(self.names, sums, strict=True)}
