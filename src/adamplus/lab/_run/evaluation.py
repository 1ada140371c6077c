"""Evaluation of a model at w, the point that is used after training, and at ŵ, if training happens there.

If steps are CUDA graphs, the evaluation of a batch is one, too: the GPU would wait for a host that launches its kernels
one by one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from adamplus import update_bn

from ..tasks import Split, Task
from .graphs import capture
from .running_means import RunningMeans, row_sums

BATCHES_AT_ONCE = 4  # training batches whose rows are evaluated together, unless the task sets evaluation_rows
STATISTICS_ROWS = 4000  # training rows, approximately, from which BatchNorm statistics at w are computed


def has_two_points(optimizer: Optimizer) -> bool:
    """Whether the optimizer trains at another point than the one that is used after training."""
    return hasattr(optimizer, "eval")


def summarized(task: Task, means: dict[str, float]) -> dict[str, float]:
    """The task's summary of the means, with the loss, by which divergence is noticed even if the summary drops it."""
    return {"loss": means["loss"], **task.summary(means)}


class Evaluation:
    """Computes a model's metrics on each split; `forward` is the compiled model, for batches of one size."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        forward: Callable[[Tensor], Tensor],
        data: dict[str, Split],
        autocast: Callable[[], Any],
        graphed: bool = False,
    ) -> None:
        self.task, self.model, self.forward, self.data, self.autocast = task, model, forward, data, autocast
        self.graphed = graphed
        self.graphs: dict[Any, tuple[list[int], Callable[[Tensor, Tensor], None]]] = {}
        self.means = RunningMeans(data["test"][0].device)
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        train_rows = len(data["test"][0]) if task.train_rows is None else task.train_rows
        self.rows = {name: train_rows if name == "train" else len(x) for name, (x, _) in data.items()}
        self.at_once = BATCHES_AT_ONCE * task.batch if task.evaluation_rows is None else task.evaluation_rows
        # A random sample of training rows, the same at every evaluation: a file may have them sorted by class.
        rows = len(data["train"][0])
        order = torch.arange(rows) if task.ordered else torch.randperm(rows, generator=torch.Generator().manual_seed(0))
        self.sample = order[: max(train_rows, STATISTICS_ROWS)].to(data["train"][0].device)

    def metrics(self, optimizer: Optimizer) -> dict[str, float]:
        """Metrics as `split_name` at w, and as `split_name_hat` at ŵ, if that is another point."""
        if self.world > 1:  # every rank has BatchNorm statistics of its own rows
            for buffer in self.model.buffers():
                dist.broadcast(buffer, 0)
        if not has_two_points(optimizer):
            return self._all_splits("")
        at_w_hat = self._all_splits("_hat")
        with self._at_w(cast("Any", optimizer)):
            return at_w_hat | self._all_splits("")

    @contextmanager
    def _at_w(self, optimizer: Any) -> Iterator[None]:
        """Move parameters and BatchNorm statistics to w, and afterwards restore every bit."""
        before = [(t, t.detach().clone()) for t in (*self.model.parameters(), *self.model.buffers())]
        optimizer.eval()
        try:
            with self.autocast():
                update_bn(self._training_batches(), self.model, cast("Any", _AlreadyAtW))
            yield
        finally:
            optimizer.train()
            with torch.no_grad():
                for tensor, value in before:
                    tensor.copy_(value)

    def _training_batches(self) -> Iterator[Tensor]:
        """Augmented training rows for BatchNorm statistics, in batches of one size."""
        rows = self.sample[:STATISTICS_ROWS]
        size = min(self.at_once, len(rows))
        for some in rows[: len(rows) // size * size].split(size):
            yield self.task.augment(self.data["train"][0][some])

    def _all_splits(self, ending: str) -> dict[str, float]:
        self.model.eval()
        found: dict[str, float] = {}
        for name, (x, y) in self.data.items():
            if rows := self.rows[name]:
                chosen = self.sample[:rows] if name == "train" else slice(rows)
                means = self._split_means(x[chosen], y[chosen])
                found |= {f"{name}_{metric}{ending}": value for metric, value in means.items()}
        self.model.train()
        return found

    def _split_means(self, x: Tensor, y: Tensor) -> dict[str, float]:
        """Means over a split. Ranks share its batches, but each evaluates all of a task whose rows are ordered."""
        rank, world = (0, 1) if self.task.ordered else (self.rank, self.world)
        size = min(self.task.batch, len(x)) if self.task.ordered else _batch_size(-(-len(x) // world), self.at_once)
        if -(-len(x) // size) < world:  # too few batches to share, so every rank evaluates all
            rank, world = 0, 1
        with torch.no_grad(), self.autocast():
            add = self._add_for_shape(x[:size], y[:size])
            self.means.reset()
            self.task.begin(self.model)
            for start in range(rank * size, len(x), world * size):
                some = x[start : start + size], y[start : start + size]
                add(*some) if len(some[0]) == size else self._add(self.model, *some)
        return summarized(self.task, self.means.compute())

    def _add(self, forward: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> None:
        """Add the metrics of a batch to the running means."""
        outputs = forward(x)
        means = {"loss": self.task.loss(outputs, y), **self.task.metrics(outputs, y)}
        self.means.add(tuple(means), row_sums(means.values(), len(x)))

    def _add_for_shape(self, x: Tensor, y: Tensor) -> Callable[[Tensor, Tensor], None]:
        """Return a function that does `_add` for batches of these shapes, by a graph if there can be one."""
        if not self.graphed:
            return partial(self._add, self.forward)
        kind = (x.shape, x.dtype, y.shape, y.dtype)
        places = [t.data_ptr() for t in (*self.model.parameters(), *self.model.buffers())]
        if kind not in self.graphs or self.graphs[kind][0] != places:  # an optimizer's eval() may replace the tensors
            in_x, in_y = x.clone(), y.clone()
            replay = capture(lambda: self._add(self.forward, in_x, in_y), self.model)

            def add(x: Tensor, y: Tensor) -> None:
                in_x.copy_(x)
                in_y.copy_(y)
                replay()

            self.graphs[kind] = places, add
        return self.graphs[kind][1]


class _AlreadyAtW:
    """Stands for an optimizer in `update_bn`: the parameters are at w already."""

    averaged = staticmethod(nullcontext)


def _batch_size(rows: int, most: int) -> int:
    """The largest batch size up to `most` that divides the rows; a quarter of `most` if no larger one does."""
    return next(n for n in range(min(most, rows), 0, -1) if rows % n == 0 or n <= most // 4)
