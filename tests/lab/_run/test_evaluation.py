"""Evaluation at w and at ŵ."""

import copy
from typing import Any

import pytest
import torch
from blob_runs import Reading, learner, spec
from blobs import Blobs
from plain_blobs import PlainBlobs
from torch import Tensor, nn

from adamplus import AdamPlus, update_bn
from adamplus.lab._run import evaluation as _evaluation
from adamplus.lab._run.learner import Learner


@pytest.mark.parametrize("optimizer", ["adam-plus", "schedule-free-adamw", "adam"])
def test_evaluation_changes_no_bit_of_model_and_optimizer(optimizer: str):
    made = learner(optimizer)
    made.epoch(0, [])
    before = copy.deepcopy((made.model.state_dict(), made.optimizer.state_dict()["state"]))
    modes = [module.training for module in made.model.modules()]
    made.evaluation.metrics(made.optimizer)
    after = made.model.state_dict(), made.optimizer.state_dict()["state"]
    assert all(torch.equal(before[0][name], value) for name, value in after[0].items())
    torch.testing.assert_close(before[1], after[1], rtol=0, atol=0)
    assert [module.training for module in made.model.modules()] == modes


class Still(Blobs):
    def augment(self, x: Tensor) -> Tensor:
        return x


def test_metrics_are_computed_at_w_with_its_own_statistics_and_at_w_hat():
    made = Learner(Still(), spec())
    made.prepare()
    line = made.epoch(0, [])
    x, y = made.data["test"]
    optimizer = made.optimizer
    assert isinstance(optimizer, AdamPlus)
    made.model.eval()

    @torch.no_grad()
    def loss() -> float:
        return float(nn.functional.cross_entropy(made.model(x), y))

    at_w_hat = loss()
    assert line["test_loss_hat"] == pytest.approx(at_w_hat, rel=1e-6)
    update_bn(made.evaluation._training_batches(), made.model, optimizer)
    with optimizer.averaged():
        at_w = loss()
    assert line["test_loss"] == pytest.approx(at_w, rel=1e-6)
    assert abs(at_w - at_w_hat) > 1e-4 * at_w


def test_optimizers_with_one_point_have_one_set_of_metrics():
    line = learner("adam").epoch(0, [])
    assert not [name for name in line if name.endswith("_hat")]
    assert {"train_loss", "validation_accuracy", "test_accuracy", "running_accuracy"} <= line.keys()
    assert "norm_sum" not in line


class Sorted(Blobs):
    """Rows sorted by class, more than are evaluated at once, with a last batch of one row."""

    def data(self) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(0)
        y = torch.arange(501) // 251
        x = torch.randn(501, 1, 4, 4, generator=generator) + 3.0 * y.view(-1, 1, 1, 1)
        some = torch.randperm(501, generator=generator)[:100]
        return {"train": (x, y), "validation": (x[some], y[some]), "test": (x[some], y[some])}

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def test_statistics_at_w_cover_all_classes_even_if_rows_are_sorted():
    made = Learner(Sorted(), spec("adam-plus", settings={"lr": 0.5}))
    made.prepare()
    line = [made.epoch(number, []) for number in range(3)][-1]
    assert line["test_accuracy"] > 0.95  # 0.83, with statistics of the first class alone
    assert line["train_accuracy"] > 0.9  # a sample of both classes, too
    sizes = [len(batch) for batch in made.evaluation._training_batches()]
    assert sizes == [64] * 7


def test_statistics_at_w_use_augmented_rows_and_the_precision_of_training():
    class Far(Blobs):
        def augment(self, x: Tensor) -> Tensor:
            return x + 100

    made = Learner(Far(), spec(precision="bfloat16"))
    made.prepare()
    seen: list[tuple[torch.dtype, float]] = []
    first: Any = next(iter(made.model.children()))
    first.register_forward_hook(lambda _, inputs, output: seen.append((output.dtype, float(inputs[0].mean()))))
    with made.evaluation._at_w(made.optimizer):
        pass
    assert {dtype for dtype, _ in seen} == {torch.bfloat16}
    assert all(mean > 50 for _, mean in seen)


def test_a_task_chooses_how_many_rows_are_evaluated_at_once():
    class Few(Blobs):
        evaluation_rows = 10

    made = Learner(Few(), spec("sgd"))
    made.prepare()
    seen: list[int] = []
    made.model.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    made.evaluation.metrics(made.optimizer)
    assert set(seen) == {10}


def test_a_shorter_last_batch_is_weighted_by_its_rows():
    class Odd(PlainBlobs):
        evaluation_rows = 16

        def data(self) -> Any:
            return {name: (x[:37], y[:37]) for name, (x, y) in super().data().items()}

    made = Learner(Odd(), spec("sgd"))
    x, y = made.data["test"]
    found = made.evaluation.metrics(made.optimizer)
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(made.model.eval()(x), y))
    assert found["test_loss"] == pytest.approx(loss, rel=1e-6)


def test_the_evaluated_training_rows_cover_all_classes():
    class Sorted(PlainBlobs):
        def data(self) -> Any:
            return {name: (x[y.argsort()], y.sort().values) for name, (x, y) in super().data().items()}

        def metrics(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
            return {"ones": y.double().mean()}

    made = Learner(Sorted(), spec("sgd"))
    assert 0.2 < made.evaluation.metrics(made.optimizer)["train_ones"] < 0.8


def test_every_rank_evaluates_all_of_a_stream():
    made = Learner(Reading(), spec("sgd"))
    alone = made.evaluation.metrics(made.optimizer)
    made.evaluation.rank, made.evaluation.world = 1, 2
    x, y = made.data["test"]
    made.model.eval()
    assert made.evaluation._split_means(x, y)["loss"] == alone["test_loss"]


def test_an_evaluation_is_captured_again_if_parameters_were_replaced(monkeypatch: pytest.MonkeyPatch):
    """An optimizer's eval() may replace them, but a graph reads the tensors with which it was captured."""
    captured: list[int] = []

    def capture(function: Any, model: nn.Module) -> Any:
        places = [p.data_ptr() for p in model.parameters()]
        captured.append(len(captured))

        def replay() -> None:
            assert places == [p.data_ptr() for p in model.parameters()]
            function()

        return replay

    monkeypatch.setattr(_evaluation, "capture", capture)
    made = learner("sgd")
    evaluation = _evaluation.Evaluation(made.task, made.model, made.model, made.data, made.autocast, graphed=True)
    first = evaluation.metrics(made.optimizer)
    kinds = len(captured)
    assert evaluation.metrics(made.optimizer) == first
    assert len(captured) == kinds > 0
    for p in made.model.parameters():
        p.data = 2 * p.data
    assert evaluation.metrics(made.optimizer) != first
    assert len(captured) == 2 * kinds


def test_each_shape_of_batch_has_its_own_graph(monkeypatch: pytest.MonkeyPatch):
    class Shapes(PlainBlobs):
        evaluation_rows = 64

        def data(self) -> Any:
            sets = super().data()
            x, y = sets["test"]
            return {**sets, "validation": (x[:20], y[:20])}

    captured: list[int] = []
    monkeypatch.setattr(_evaluation, "capture", lambda function, _: captured.append(1) or function)
    made = Learner(Shapes(), spec("sgd"))
    plain = made.evaluation.metrics(made.optimizer)
    made.evaluation.graphed = True
    assert made.evaluation.metrics(made.optimizer) == pytest.approx(plain)
    assert len(captured) == 2
