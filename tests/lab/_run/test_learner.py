"""The learner: order of the rows, steps, clipping, the large first batch, ranks."""

import copy
import math
from typing import Any, cast

import pytest
import torch
from blob_runs import Reading, learner, spec, without_times
from blobs import Blobs
from plain_blobs import PlainBlobs
from torch import Tensor, nn

from adamplus.lab._run import learner as _learner
from adamplus.lab._run.learner import Learner, divergence
from adamplus.lab.errors import InputError
from adamplus.lab.optimizers import CONTENDERS
from adamplus.lab.tasks import Split, Task


def test_every_optimizer_starts_from_the_same_model():
    starts = [torch.cat([p.flatten() for p in learner(name).model.parameters()]) for name in CONTENDERS]
    assert all(torch.equal(start, starts[0]) for start in starts)
    assert not torch.equal(torch.cat([p.flatten() for p in learner(seed=2).model.parameters()]), starts[0])


class Odd(Blobs):
    def data(self) -> dict[str, Split]:
        splits = super().data()
        x, y = splits["train"]
        return {**splits, "train": (x[:33], y[:33])}


def rows_of_epochs(task: Task, epochs: int, **changes: Any) -> list[list[int]]:
    """The order of the training rows in each epoch."""
    made, orders = Learner(task, spec(epochs=epochs, **changes)), []
    made.prepare()
    for number in range(epochs):
        made.epoch(number, [])
        orders.append(made.order.tolist())
    return orders


def test_the_epochs_of_a_pass_see_each_row_once_in_one_random_order():
    class InThree(Blobs):
        epochs_per_pass = 3

    whole, parts = rows_of_epochs(Blobs(), 4), rows_of_epochs(InThree(), 6)
    assert [len(part) for part in parts] == [66] * 6  # 2 of 200 rows are left over
    assert [*parts[0], *parts[1], *parts[2]] == whole[0][:198]
    assert [*parts[3], *parts[4], *parts[5]] == whole[3][:198]  # the second pass begins with epoch 3


def test_an_ordered_pass_is_divided_in_its_order():
    class InTwo(Stream):
        epochs_per_pass = 2

    assert rows_of_epochs(InTwo(), 3, optimizer="sgd") == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]


def test_random_numbers_differ_between_the_epochs_of_a_pass():
    class Noisy(Blobs):
        epochs_per_pass = 2
        drawn: list[float] = []  # noqa: RUF012 - used in this test only

        def augment(self, x: Tensor) -> Tensor:
            if len(x) == self.batch:
                self.drawn.append(float(torch.rand(())))
            return x

    rows_of_epochs(Noisy(), 2)
    assert len(set(Noisy.drawn)) == len(Noisy.drawn) > 2


def test_steps_without_rows_are_not_counted():
    """Two processes leave out the last of 33 rows, and take two steps of 16 rows per epoch."""
    made = Learner(Odd(), spec())
    made.prepare()
    made.rank, made.world = 0, 2  # enough for counting steps
    assert [made.epoch(i, [])["step"] for i in range(2)] == [2, 4]


def test_running_means_count_every_row_once():
    class Counting(Blobs):
        seen: list[int] = []  # noqa: RUF012 - used in this test only

        def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
            if outputs.requires_grad:
                self.seen.append(len(y))
            return super().loss(outputs, y)

        def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
            return {"ones": y.double().mean()}

    made = Learner(Counting(), spec("sgd"))
    made.prepare()
    line = made.epoch(0, [])
    assert Counting.seen == [16] * 12 + [8]
    assert line["step"] == 13
    assert line["running_ones"] == pytest.approx(float(made.data["train"][1].double().mean()), rel=1e-12)


class Stream(Task):
    """Rows with increasing numbers, and a model that records the order in which it sees them."""

    batch = 1
    ordered = True

    def data(self) -> dict[str, Any]:
        x = torch.arange(6.0).view(6, 1, 1)
        return dict.fromkeys(("train", "validation", "test"), (x, x))

    def model(self) -> nn.Module:
        model = nn.Linear(1, 1)
        self.seen: list[float] = []
        model.register_forward_hook(lambda _, inputs, __: self.seen.append(float(inputs[0])))
        return model

    def begin(self, model: nn.Module) -> None:
        self.seen.append(math.inf)

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs - y).square().mean()


def test_a_stream_is_visited_in_order_and_started_again_in_each_pass():
    task = Stream()
    made = Learner(task, spec("sgd"))
    made.prepare()
    made.epoch(0, [])
    assert task.seen == [math.inf, *range(6)] * 4  # training, and three splits


def test_precision_applies_to_forward_passes():
    made = learner("sgd", precision="bfloat16")
    seen: list[torch.dtype] = []
    made.model[0].register_forward_hook(lambda *arguments: seen.append(arguments[-1].dtype))  # type: ignore[index]
    made.epoch(0, [])
    assert set(seen) == {torch.bfloat16}
    assert {p.dtype for p in made.model.parameters()} == {torch.float32}


def test_gradients_are_clipped():
    class Clipped(PlainBlobs):
        clip = 0.01

    made = Learner(Clipped(), spec("sgd"))
    made.prepare()
    norms: list[float] = []

    def note(*_: Any) -> None:
        norms.append(float(torch.cat([cast("Tensor", p.grad).flatten() for p in made.model.parameters()]).norm()))

    made.optimizer.register_step_pre_hook(note)
    made.epoch(0, [])
    assert norms == pytest.approx([0.01] * 13, rel=1e-4)


def test_every_epoch_has_a_different_order():
    made, orders = learner("sgd"), []
    for number in range(2):
        made.epoch(number, [])
        orders.append(made.order.clone())
    assert not torch.equal(*orders)


def test_metrics_must_have_the_same_names_for_every_batch():
    class Fickle(PlainBlobs):
        def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
            return {"half" if len(y) < self.batch else "whole": outputs.mean()}

    made = Learner(Fickle(), spec("sgd"))
    made.prepare()
    with pytest.raises(InputError, match="the metrics are loss, whole for one batch and loss, half for another"):
        made.epoch(0, [])


def graphed(monkeypatch: pytest.MonkeyPatch, optimizer: str) -> Learner:
    """A learner with stand-ins for CUDA graphs on a CPU.

    As with real graphs, a replay leaves `p.grad` as it is and writes gradients to the graph's own tensors.
    """

    def capture(function: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
        before = copy.deepcopy(model.state_dict())
        function()
        own = [p.grad for p in model.parameters()]
        model.load_state_dict(before)

        def replay() -> None:
            seen = [p.grad for p in model.parameters()]
            function()
            for p, mine, old in zip(model.parameters(), own, seen, strict=True):
                mine.copy_(p.grad)  # type: ignore[union-attr]
                p.grad = old

        return replay

    monkeypatch.setattr(_learner, "capture", capture)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    made = Learner(PlainBlobs(), spec(optimizer))
    made.graphed = True
    made.prepare()
    made.cursor.zero_()
    return made


@pytest.mark.parametrize("optimizer", ["adagrad", "schedule-free-sgd", "muon"])
def test_a_step_outside_the_graph_finds_the_gradients_of_the_latest_replay(
    optimizer: str, monkeypatch: pytest.MonkeyPatch
):
    plain = Learner(PlainBlobs(), spec(optimizer))
    plain.prepare()
    captured = graphed(monkeypatch, optimizer)  # 200 rows in batches of 16: two graphs, of 16 and of 8 rows
    for number in range(2):
        assert without_times([captured.epoch(number, [])]) == without_times([plain.epoch(number, [])])


def test_the_large_first_batch_is_one_additional_step():
    made = learner("sgd", first_batch=200, settings={"lr": 0.5})
    line = made.epoch(0, [])
    assert line["step"] == 14  # 13 in the epoch, and one before it
    assert made.epoch(1, [])["step"] == 27
    large = Learner(PlainBlobs(), spec("sgd", first_batch=4000, settings={"lr": 1.0}))
    large.prepare()
    before = [p.detach().clone() for p in large.model.parameters()]
    large.first_step(4000)
    moved = [b - p.detach() for b, p in zip(before, large.model.parameters(), strict=True)]
    for p, b in zip(large.model.parameters(), before, strict=True):
        p.data.copy_(b)
    large.optimizer.zero_grad()
    large.loss(torch.arange(200))[0].backward()
    true = [p.grad for p in large.model.parameters()]
    for step, gradient in zip(moved, true, strict=True):
        assert gradient is not None
        assert float((step - gradient).norm()) < 0.2 * float(gradient.norm())  # 4,000 draws of 200 rows


def test_a_first_batch_is_clipped_and_leaves_no_recurrent_state():
    made = Learner(Reading(), spec("sgd", first_batch=5, settings={"lr": 1.0}))
    made.prepare()
    before = [p.detach().clone() for p in made.model.parameters()]
    made.first_step(5)
    moved = torch.stack([(b - p.detach()).norm() for b, p in zip(before, made.model.parameters(), strict=True)])
    assert float(moved.norm()) == pytest.approx(1e-3, rel=1e-3)
    assert all(not buffer.any() for buffer in made.model.buffers())


def test_pieces_of_a_first_batch_are_weighted_by_their_rows(monkeypatch: pytest.MonkeyPatch):
    made = Learner(PlainBlobs(), spec("sgd", settings={"lr": 1.0}))
    made.prepare()
    rows = torch.arange(20)
    monkeypatch.setattr(torch, "randint", lambda *_, **__: rows)  # in pieces of 16 and 4
    made.loss(made.order[rows])[0].backward()
    moved = [p.detach() - cast("Tensor", p.grad) for p in made.model.parameters()]
    made.first_step(20)
    for p, value in zip(made.model.parameters(), moved, strict=True):
        torch.testing.assert_close(p.detach(), value)


def test_ranks_share_a_first_batch(monkeypatch: pytest.MonkeyPatch):
    made = Learner(PlainBlobs(), spec("sgd"))
    made.prepare()
    made.world = 2
    seen: list[int] = []
    loss = made.loss
    monkeypatch.setattr(made, "loss", lambda rows: seen.append(len(rows)) or loss(rows))
    made.first_step(40)
    assert seen == [8, 8, 4]  # of 40 rows in pieces of 16, half


def test_ranks_have_different_random_numbers_and_the_same_order():
    class Seen(PlainBlobs):
        drawn: list[float] = []  # noqa: RUF012 - used in this test only

        def augment(self, x: Tensor) -> Tensor:
            self.drawn.append(float(torch.rand(())))
            return x

    orders = []
    for rank in (0, 1):
        made = Learner(Seen(), spec("sgd"))
        made.prepare()
        made.rank = rank
        made.epoch(0, [])
        orders.append(made.order.clone())
    assert torch.equal(*orders)
    half = len(Seen.drawn) // 2
    assert Seen.drawn[:half] != Seen.drawn[half:]


@pytest.mark.parametrize("rank", [0, 1])
def test_rows_that_ranks_cannot_share_are_left_out(rank: int):
    class Rest(PlainBlobs):
        def data(self) -> Any:
            return {name: (x[:33], y[:33]) for name, (x, y) in super().data().items()}

    made = Learner(Rest(), spec("sgd"))
    made.prepare()
    made.rank, made.world = rank, 2
    steps: list[int] = []
    made.optimizer.register_step_pre_hook(lambda *_: steps.append(1))
    for start in (0, 16, 32):
        made.step(start)
    assert len(steps) == 2


@pytest.mark.parametrize("name", ["running_loss", "test_loss", "validation_loss", "test_loss_hat", "train_loss_hat"])
def test_any_loss_that_is_not_finite_is_a_divergence(name: str):
    assert divergence({"epoch": 3, name: math.nan}, "accuracy") == f"{name} is nan in epoch 3"
    assert divergence({"epoch": 3, name: math.inf}, "accuracy") == f"{name} is inf in epoch 3"
    assert divergence({"epoch": 3, name: 1e30, "test_perplexity": math.inf}, "perplexity") is None


@pytest.mark.parametrize("name", ["running_r2", "test_r2", "validation_r2_hat"])
def test_nan_in_the_judged_metric_is_a_divergence(name: str):
    assert divergence({"epoch": 3, name: math.nan}, "r2") == f"{name} is nan in epoch 3"
    assert divergence({"epoch": 3, name: math.nan}, "accuracy") is None  # a ratio of nothing to nothing, perhaps
