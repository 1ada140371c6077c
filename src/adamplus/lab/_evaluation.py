"""Evaluation at the point that one ships, and at the one that is trained where these are two."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from adamplus import update_bn

from ._meter import Meter, sums
from .tasks import Split, Task

ROWS = 2000  # that are evaluated together
STATISTICS = (8, 500)  # batches of so many training rows make BatchNorm statistics at w


def has_two_points(optimizer: Optimizer) -> bool:
    """Whether the optimizer ships another point than the one that it trains at."""
    return hasattr(optimizer, "eval")


class Evaluation:
    """A model's metrics on each split; `forward` is the model as it is executed on batches of one size."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        forward: Callable[[Tensor], Tensor],
        data: dict[str, Split],
        autocast: Callable[[], Any],
    ) -> None:
        self.task, self.model, self.forward, self.data, self.autocast = task, model, forward, data, autocast
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        train_rows = len(data["test"][0]) if task.train_rows is None else task.train_rows
        self.rows = {name: train_rows if name == "train" else len(x) for name, (x, _) in data.items()}

    def metrics(self, optimizer: Optimizer) -> dict[str, float]:
        """By split and name: at w, and with the ending `_hat` at ŵ, where that is another point."""
        if not has_two_points(optimizer):
            return self._everything("")
        at_w_hat = self._everything("_hat")
        with self._shipped(cast("Any", optimizer)):
            return at_w_hat | self._everything("")

    @contextmanager
    def _shipped(self, optimizer: Any) -> Iterator[None]:
        """The parameters at w, with BatchNorm statistics at w; afterwards everything has the bits of before."""
        before = [(t, t.detach().clone()) for t in (*self.model.parameters(), *self.model.buffers())]
        optimizer.eval()
        try:
            batches, rows = STATISTICS
            with self.autocast():
                update_bn(self.data["train"][0][: batches * rows].split(rows), self.model, cast("Any", _Here))
            yield
        finally:
            optimizer.train()
            with torch.no_grad():
                for tensor, value in before:
                    tensor.copy_(value)

    def _everything(self, ending: str) -> dict[str, float]:
        self.model.eval()
        found: dict[str, float] = {}
        for name, (x, y) in self.data.items():
            if rows := self.rows[name]:
                means = self._on(x[:rows], y[:rows])
                found |= {f"{name}_{metric}{ending}": value for metric, value in means.items()}
        self.model.train()
        return found

    def _on(self, x: Tensor, y: Tensor) -> dict[str, float]:
        """Means over a split, of which each rank takes its share of batches; all of a stream, which has an order."""
        rank, world = (0, 1) if self.task.ordered else (self.rank, self.world)
        size = self.task.batch if self.task.ordered else _size(-(-len(x) // world))
        meter = Meter(x.device)
        self.task.begin(self.model)
        with torch.no_grad(), self.autocast():
            for start in range(rank * size, len(x), world * size):
                some_x, some_y = x[start : start + size], y[start : start + size]
                outputs = self.forward(some_x) if len(some_x) == size else self.model(some_x)
                means = {"loss": self.task.loss(outputs, some_y), **self.task.metrics(outputs, some_y)}
                meter.add(tuple(means), sums(means.values(), len(some_x)))
        return self.task.summary(meter.means())


class _Here:
    averaged = staticmethod(nullcontext)  # the parameters are at w already


def _size(rows: int) -> int:
    """Of batches, so that the last is as large as the others, if that can be."""
    return next(n for n in range(min(ROWS, rows), 0, -1) if rows % n == 0 or n < ROWS // 4)
