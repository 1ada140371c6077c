"""The optimizer of a run: how schedules change its settings."""

import pytest
from blob_runs import TASK, learner, spec, without_times
from blobs import Blobs
from torch import nn

from adamplus.lab._run.learner import Learner
from adamplus.lab._run.scheduled_optimizer import ScheduledOptimizer
from adamplus.lab.errors import InputError
from adamplus.lab.tasks import Moment, find


def test_a_schedule_multiplies_the_initial_settings():
    made = learner("msgd", settings={"lr": 0.5})
    lines: list[dict[str, float]] = []
    for number in range(4):
        lines.append(made.epoch(number, lines))
    assert [line["lr"] for line in lines] == [0.5, 0.5, 0.05, 0.05]
    assert made.optimizer.param_groups[0]["lr"] == 0.05


def test_an_empty_schedule_restores_the_initial_settings():
    class Once(Blobs):
        def schedule(self, now: Moment) -> dict[str, float]:
            return {"lr": 0.1} if now.epoch == 1 else {}

    made = Learner(Once(), spec("sgd", settings={"lr": 1.0}))
    made.prepare()
    assert [made.epoch(number, [])["lr"] for number in range(3)] == [1.0, 0.1, 1.0]
    assert made.optimizer.param_groups[0]["lr"] == 1.0


def test_a_setting_that_a_schedule_drops_is_restored_even_after_a_resumption(monkeypatch: pytest.MonkeyPatch):
    task, _ = find(TASK)
    monkeypatch.setattr(task, "schedule", lambda now: {"lr": 0.1} if now.epoch < 2 else {})
    whole, first, again = (Learner(task, spec("msgd", settings={"lr": 0.5})) for _ in range(3))
    for made in (whole, first):
        made.prepare()
        for number in range(2):
            made.epoch(number, [])
    again.load(first.state())
    again.prepare()
    assert without_times([again.epoch(2, [])]) == without_times([whole.epoch(2, [])])
    assert again.optimizer.param_groups[0]["lr"] == whole.optimizer.param_groups[0]["lr"] == 0.5


def test_a_stepwise_schedule_applies_before_each_step(monkeypatch: pytest.MonkeyPatch):
    task, _ = find(TASK)
    monkeypatch.setattr(task, "stepwise", True)
    monkeypatch.setattr(task, "schedule", lambda now: {"lr": 1 - now.progress})
    made, seen = Learner(task, spec("sgd", epochs=2, settings={"lr": 0.5})), []
    made.optimizer.register_step_pre_hook(lambda optimizer, *_: seen.append(optimizer.param_groups[0]["lr"]))
    made.prepare()
    lines = [made.epoch(number, []) for number in range(2)]
    steps, rows = int(lines[0]["step"]), len(made.data["train"][0])
    expected = [0.5 * (1 - (epoch + i * task.batch / rows) / 2) for epoch in range(2) for i in range(steps)]
    assert seen == pytest.approx(expected, rel=1e-12)
    assert [line["lr"] for line in lines] == pytest.approx([expected[steps - 1], expected[-1]])


def test_a_schedule_of_an_unknown_or_captured_setting_is_refused():
    made = learner("msgd")
    with pytest.raises(InputError, match="'learning_rate', which no optimizer has"):
        made.scheduled.set({"learning_rate": 0.1})
    made.scheduled.captured, made.scheduled.tensors = True, ("lr",)
    with pytest.raises(InputError, match="capture = False"):
        made.scheduled.set({"momentum": 0.5})


def test_dampening_is_not_captured():
    assert not ScheduledOptimizer(
        spec("msgd", settings={"lr": 1.0, "dampening": 0.5}), nn.Linear(1, 1), captured=True
    ).captured
