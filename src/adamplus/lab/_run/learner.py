"""The training loop: a learner trains a model for one epoch at a time.

Data and augmentation are on the device. On one GPU, a step is one CUDA graph, and the host waits for metrics only at
the end of an epoch. On a CPU, and on several devices under DDP, the kernels of a step are launched one by one.
"""

import hashlib
import math
import time
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from adamplus.theory import undisturbed

from .._store import Spec
from ..errors import InputError
from ..tasks import Moment, Split, Task
from .determinism import make_deterministic
from .evaluation import Evaluation, summarized
from .graphs import capture, compile_static
from .probe import measure_errors
from .running_means import RunningMeans, row_sums
from .scheduled_optimizer import ScheduledOptimizer


class Learner:
    """A model, its optimizer and its data on one device, or on one of several that train together under DDP."""

    def __init__(self, task: Task, spec: Spec) -> None:
        self.task, self.spec, self.device = task, spec, torch.device(spec.device)
        on_cuda = self.device.type == "cuda"
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        if task.batch % self.world:
            raise InputError(
                f"{self.world} processes cannot share batches of {task.batch} rows: start a number that divides them"
            )
        self.data = {name: self._to_device(split) for name, split in task.data().items()}
        torch.manual_seed(spec.seed)
        self.model = task.model().to(self.device)
        if on_cuda:
            torch.cuda.reset_peak_memory_stats(self.device)
            make_deterministic()
            self.model = cast("nn.Module", cast("Any", self.model).to(memory_format=torch.channels_last))
        self.graphed = on_cuda and self.world == 1 and task.capture
        self.scheduled = ScheduledOptimizer(spec, self.model, captured=self.graphed)
        self.optimizer, self.graphed_step = self.scheduled.optimizer, self.scheduled.captured
        self.forward: Any = torch.compile(self.model) if on_cuda else self.model
        self.training_forward: Any = DistributedDataParallel(self.forward) if self.world > 1 else self.forward
        if self.graphed:
            self.training_forward = self.model  # compiled together with the loss, in _capture_step
        self.autocast = partial(_autocast, self.device.type, spec.precision)
        self.evaluation = Evaluation(task, self.model, self.forward, self.data, self.autocast, self.graphed)
        self.means = RunningMeans(self.device)
        self.steps, self.seconds = 0, 0.0
        self.graphs: dict[int, Any] = {}

    def _to_device(self, split: Split) -> Split:
        x, y = (t.to(self.device) for t in split)
        return (x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x), y

    def loss(self, rows: Tensor) -> tuple[Tensor, tuple[str, ...], Tensor]:
        """The loss on some training rows, the names of its metrics, and the metrics' sums over these rows."""
        x, y = (t[rows] for t in self.data["train"])
        with self.autocast():
            outputs = self.training_forward(self.task.augment(x))
            loss = self.task.loss(outputs, y)
        means = {"loss": loss.detach(), **self.task.metrics(outputs.detach(), y)}
        return loss, tuple(means), row_sums(means.values(), len(rows))

    def next_loss(self, places: Tensor) -> tuple[Tensor, tuple[str, ...], Tensor]:
        """The loss on the rows at `places` after the cursor, in the epoch's order, for a graph."""
        return self.loss(self.order[(self.cursor + places) % len(self.order)])

    def backward(self, loss: Tensor, names: tuple[str, ...], sums: Tensor) -> None:
        """Compute gradients, clip them, and add the metrics to the running means."""
        self.optimizer.zero_grad()
        loss.backward()
        self.clip()
        self.means.add(names, sums)

    def clip(self) -> None:
        """Clip the norm of the gradient, if the task has a `clip`."""
        if self.task.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.task.clip)

    def step(self, start: int) -> None:
        """Take one step on the rows from `start` in the epoch's order."""
        size = min(self.task.batch, len(self.order) - start)
        if self.graphed:
            self.graphs[size]()
        else:
            size -= size % self.world
            rows = self.order[start : start + size][self.rank :: self.world]
            if not len(rows):
                return
            self.backward(*self.loss(rows))
        if not self.graphed_step:
            self.optimizer.step()
        self.steps += 1

    def _capture_step(self, size: int, full: bool) -> Any:
        """Capture a step on `size` rows; each replay moves the cursor to the next rows."""
        places = torch.arange(size, device=self.device)
        next_loss: Any = compile_static(self.next_loss) if full else self.next_loss

        def step() -> None:
            self.backward(*next_loss(places))
            if self.graphed_step:
                self.optimizer.step()
            self.cursor.add_(size)

        replay = capture(step, self.model, self.optimizer)
        # Each graph writes gradients to its own tensors, where a step outside the graph must find them.
        gradients = [(p, p.grad) for p in self.model.parameters()]

        def replay_and_point() -> None:
            replay()
            for p, gradient in gradients:
                p.grad = gradient

        return replay if self.graphed_step else replay_and_point

    def prepare(self) -> None:
        """Compile, and capture a graph for each batch size. This happens once and does not change the model."""
        rows = len(self.data["train"][0]) // self.task.epochs_per_pass
        self.order = torch.arange(rows, device=self.device)
        self.cursor = torch.zeros((), dtype=torch.int64, device=self.device)
        if self.device.type == "cuda":
            torch._dynamo.reset()  # else dynamo counts what it compiled for other runs, and stops compiling
            self.task.begin(self.model)
        if self.device.type == "cuda" and not self.graphed:
            with undisturbed(self.model, self.optimizer):
                self.loss(self.order[self.rank : min(self.task.batch, rows) : self.world])[0].backward()
                self.optimizer.zero_grad()
        if self.graphed:
            for size in {min(self.task.batch, rows), rows % self.task.batch or self.task.batch}:
                self.graphs[size] = self._capture_step(size, full=size == self.task.batch)

    def epoch(self, number: int, history: list[dict[str, float]]) -> dict[str, float]:
        """Train for one epoch (0, 1, …) and evaluate; returns a line of metrics."""
        now = Moment(number, self.spec.epochs, self.spec.optimizer, history)
        settings = self.scheduled.set(self.task.schedule(now))
        self.order.copy_(self._rows(number))
        if self.rank:  # else all ranks would draw the same crops and drop the same units
            torch.manual_seed(_combined_seed(self.spec.seed, number, self.rank))
        self.cursor.zero_()
        self.means.reset()
        self.model.train()
        self.task.begin(self.model)
        begun = time.perf_counter()
        if self.steps == 0 and self.spec.first_batch:
            self.first_step(self.spec.first_batch)
        for start in range(0, len(self.order), self.task.batch):
            if self.task.stepwise:
                settings = self.scheduled.set(self.task.schedule(now._replace(part=start / len(self.order))))
            self.step(start)
        running = summarized(self.task, self.means.compute())  # the host waits for the device here
        self.seconds += time.perf_counter() - begun
        line: dict[str, float] = {"epoch": number + 1, "step": self.steps, "seconds": self.seconds, **settings}
        line |= {f"running_{name}": value for name, value in running.items()}
        line |= self.scheduled.stats() | (measure_errors(self) if self.spec.probe else {})
        return line | self.evaluation.metrics(self.optimizer)

    def _rows(self, number: int) -> Tensor:
        """The training rows of an epoch in the order of its steps; sets the seed of its other random numbers.

        The epochs of a pass share one random order of all rows, so that each row is seen once in a pass.
        """
        part, rows = number % self.task.epochs_per_pass, len(self.data["train"][0])
        torch.manual_seed(_combined_seed(self.spec.seed, number - part))  # the same after a resumption
        order = torch.arange(rows) if self.task.ordered else torch.randperm(rows)
        if part:
            torch.manual_seed(_combined_seed(self.spec.seed, number))
        return order[part * len(self.order) :][: len(self.order)]

    def first_step(self, rows: int) -> None:
        """Take a step on T₀ rows, with which the theorems begin, in pieces of a batch that ranks share."""
        mine = max(1, rows // self.world)
        drawn = self.order[torch.randint(len(self.order), (mine,)).to(self.device)]
        self.optimizer.zero_grad()
        for some in drawn.split(self.task.batch // self.world):
            (self.loss(some)[0] * (len(some) / mine)).backward()
        self.clip()
        self.optimizer.step()
        self.steps += 1
        self.task.begin(self.model)  # a recurrent model must forget these rows

    def state(self) -> dict[str, Any]:
        """The state between two epochs, which engines/training.py writes to checkpoints."""
        return {
            "model": self.model.state_dict(),
            "optimizing": self.scheduled.state(),
            "steps": self.steps,
            "seconds": self.seconds,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self.model.load_state_dict(state["model"])
        self.scheduled.load(state["optimizing"])
        self.steps, self.seconds = state["steps"], state["seconds"]


def divergence(line: dict[str, float], metric: str) -> str | None:
    """The reason why training cannot continue after a line of metrics, if there is one.

    A loss that is not finite is one, and so is NaN in the metric by which runs are judged.
    """
    for name, value in line.items():
        loss = name.endswith(("loss", "loss_hat"))
        judged = name.partition("_")[2].removesuffix("_hat") == metric
        if (loss and not math.isfinite(value)) or (judged and math.isnan(value)):
            return f"{name} is {value} in epoch {line['epoch']}"
    return None


def _autocast(kind: str, precision: str) -> Any:
    """The context of forward passes, which sets their precision."""
    return torch.autocast(kind, torch.bfloat16, cache_enabled=False) if precision == "bfloat16" else nullcontext()


def _combined_seed(*numbers: int) -> int:
    """A seed that depends on all of the numbers."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, numbers)).encode()).digest()[:7])
