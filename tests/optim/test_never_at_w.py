"""A run that never puts w into its parameters leaves a message in the log when the process ends. No other does."""

import copy
import functools
import io
import logging
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import batch, small_model, train
from torch import nn

from adamplus import AdamPlus, SpectralPlus
from adamplus.optim import _never_at_w
from adamplus.optim._never_at_w import ENOUGH


@pytest.fixture(name="report")
def _report(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the end of the process would log. No optimizer of another test counts."""
    monkeypatch.setattr(_never_at_w, "_NEVER_AT_W", {})
    monkeypatch.setattr(sys, "last_value", None, raising=False)
    monkeypatch.delenv("RANK", raising=False)

    def messages() -> list[str]:
        with caplog.at_level(logging.WARNING, "adamplus"):
            _never_at_w._report()
        return [record.getMessage() for record in caplog.records if record.name == "adamplus"]

    return messages


def trained(steps: int = ENOUGH, **settings: Any) -> tuple[nn.Module, AdamPlus]:
    model = small_model()
    optimizer = AdamPlus(model.parameters(), lr=0.01, **settings)
    train(model, optimizer, range(steps))
    return model, optimizer


def at_w_for_a_block(optimizer: AdamPlus) -> None:
    with optimizer.averaged():
        pass


def test_a_run_that_was_never_at_w_is_reported(report: Callable[[], list[str]]):
    trained(ENOUGH + 3)
    model = small_model()
    train(model, SpectralPlus(model.parameters(), geometry="sign"), range(ENOUGH))
    (message,) = report()
    assert f"AdamPlus took {ENOUGH + 3} steps" in message
    assert "Call optimizer.eval() before you evaluate or save the model" in message


def test_a_followed_model_that_was_never_in_eval_mode_is_reported(report: Callable[[], list[str]]):
    model = small_model()
    optimizer = AdamPlus(model.parameters(), lr=0.01)
    optimizer.follow(model)
    train(model, optimizer, range(ENOUGH))
    optimizer.state_dict()
    assert len(report()) == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "use",
    [
        lambda model, optimizer: optimizer.eval().train(),
        lambda model, optimizer: optimizer.follow(model) or model.eval().train(),
        lambda model, optimizer: at_w_for_a_block(optimizer),
    ],
)
def test_a_run_that_was_at_w_is_not_reported(when: str, use: Callable[..., Any], report: Callable[[], list[str]]):
    model, optimizer = trained(2 if when == "before" else ENOUGH)
    use(model, optimizer)
    train(model, optimizer, range(ENOUGH))
    assert not report()


@pytest.mark.parametrize("settings", [{"beta": 1.0}, {"lookahead": 0.0}])
def test_a_run_whose_two_points_are_one_is_not_reported(settings: dict[str, Any], report: Callable[[], list[str]]):
    trained(**settings)
    assert not report()


def test_a_run_with_a_tensor_beta_is_reported(report: Callable[[], list[str]]):
    trained(beta=torch.tensor(0.5))
    assert report()


def test_a_short_run_is_not_reported(report: Callable[[], list[str]]):
    trained(ENOUGH - 1)
    assert not report()


def test_a_copy_counts_its_own_steps(report: Callable[[], list[str]]):
    model, optimizer = trained(ENOUGH - 1)
    copies = [copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))]
    assert all(one._watch.steps == 0 for one in copies)
    copies[1].eval()
    train(model, optimizer, range(1))
    assert report()


@pytest.mark.parametrize("generations", [1, 3])
def test_a_run_whose_deep_copy_was_at_w_is_not_reported(generations: int, report: Callable[[], list[str]]):
    """People evaluate a copy of model and optimizer, and train the original on."""
    pair = originals = trained()
    copies = []
    for _ in range(generations):
        pair = copy.deepcopy(pair)
        copies.append(pair)
    pair[1].eval()
    train(*originals, range(ENOUGH))
    assert not report()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))])
def test_a_copy_does_not_count_what_the_device_counted_before(copied: Any, report: Callable[[], list[str]]):
    _, optimizer = trained(ENOUGH, capturable=True)
    optimizer.eval().train()
    one = copied(optimizer)
    for p in one.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    one.step()
    one._watch.read_records("AdamPlus", one.param_groups)  # as in a compiled or captured step
    assert one._watch.count() == 1
    assert not report()


@pytest.mark.parametrize("lookahead", [0, 1])
def test_what_a_checkpoint_brings_along_does_not_count(lookahead: int, report: Callable[[], list[str]]):
    (_, before), (_, optimizer) = trained(ENOUGH, lookahead=lookahead), trained(1, lookahead=lookahead)
    before.eval().train()
    optimizer.load_state_dict(before.state_dict())
    assert not report()


def test_a_copy_that_is_trained_on_is_reported(report: Callable[[], list[str]]):
    model, optimizer = copy.deepcopy(trained(2))
    train(model, optimizer, range(ENOUGH))
    assert report()


def test_a_copy_at_w_before_the_first_step_says_nothing(report: Callable[[], list[str]]):
    model = small_model()
    optimizer = AdamPlus(model.parameters(), lr=0.01)
    copy.deepcopy(optimizer).eval()
    train(model, optimizer, range(ENOUGH))
    assert report()


def train_compiled(model: nn.Module, optimizer: Any, steps: int) -> None:
    torch._dynamo.reset()
    step = torch.compile(optimizer.step, backend="eager")
    for i in range(steps):
        model.zero_grad()
        x, y = batch(i)
        nn.functional.mse_loss(model(x), y).backward()
        step()


@pytest.mark.parametrize("kind", [AdamPlus, functools.partial(SpectralPlus, geometry="sign")])
def test_compiled_steps_count(kind: Any, report: Callable[[], list[str]]):
    model = small_model()
    optimizer = kind(model.parameters(), lr=0.01)
    train_compiled(model, optimizer, ENOUGH + 2)
    assert optimizer._watch.steps < ENOUGH
    name = type(optimizer).__name__
    del optimizer
    (message,) = report()
    assert f"{name} took {ENOUGH + 2} steps" in message


@pytest.mark.parametrize("use", [lambda optimizer: optimizer.eval(), lambda optimizer: copy.deepcopy(optimizer).eval()])
def test_a_compiled_run_that_was_at_w_is_not_reported(use: Callable[..., Any], report: Callable[[], list[str]]):
    model, optimizer = trained(0)
    train_compiled(model, optimizer, 2)
    use(optimizer)
    train_compiled(model, optimizer.train(), ENOUGH)
    assert not report()


@pytest.mark.parametrize(("steps", "settings"), [(ENOUGH - 1, {}), (ENOUGH, {"lookahead": 0.0})])
def test_compiled_runs_that_are_short_or_have_one_point_are_not_reported(
    steps: int, settings: dict[str, Any], report: Callable[[], list[str]]
):
    train_compiled(*trained(0, **settings), steps)
    assert not report()


def replayed(optimizer: AdamPlus, steps: int) -> None:
    """What a replay of a CUDA graph does: the device takes steps, and Python counts none."""
    for _ in range(steps):
        optimizer._step(compiling=False)


def test_replays_of_a_graph_count(report: Callable[[], list[str]]):
    _, optimizer = trained(3, capturable=True)
    replayed(optimizer, ENOUGH)
    (message,) = report()
    assert f"AdamPlus took {ENOUGH + 3} steps" in message


@pytest.mark.parametrize("steps", [ENOUGH - 1, ENOUGH])
def test_steps_of_a_loaded_checkpoint_do_not_count(steps: int, report: Callable[[], list[str]]):
    _, before = trained(ENOUGH)
    before.eval().train()
    model, optimizer = trained(0, capturable=True)
    optimizer.load_state_dict(before.state_dict())
    x, y = batch(0)
    nn.functional.mse_loss(model(x), y).backward()
    replayed(optimizer, steps)
    assert bool(report()) == (steps >= ENOUGH)


def test_a_record_that_cannot_be_read_counts_nothing(report: Callable[[], list[str]]):
    p = nn.Parameter(torch.empty(2, device="meta"))
    optimizer = AdamPlus([p], capturable=True)
    p.grad = torch.empty_like(p)
    optimizer.step()
    assert not report()


def test_a_run_that_failed_is_not_reported(report: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch):
    trained()
    monkeypatch.setattr(sys, "last_value", ZeroDivisionError(), raising=False)
    assert not report()


def test_eval_before_the_first_step_does_not_count(report: Callable[[], list[str]]):
    """Trainers evaluate once before they train, to check that evaluation works."""
    model = small_model()
    optimizer = AdamPlus(model.parameters(), lr=0.01).eval().train()
    train(model, optimizer, range(ENOUGH))
    assert report()


def test_a_forked_process_does_not_report(report: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch):
    trained()
    monkeypatch.setattr("os.getpid", lambda: 0)
    assert not report()


def test_a_closed_stream_of_the_log_prints_no_traceback(
    report: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
):
    trained()
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    stream.close()
    logging.getLogger("adamplus").addHandler(handler)
    try:
        assert report()
    finally:
        logging.getLogger("adamplus").removeHandler(handler)
    assert capsys.readouterr().err == ""
    assert logging.raiseExceptions


def test_only_the_first_rank_reports(report: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch):
    trained()
    monkeypatch.setenv("RANK", "1")
    assert not report()


def test_the_message_comes_at_the_end_of_the_process_even_if_warnings_are_errors():
    code = (
        "import torch, adamplus\n"
        "w = torch.nn.Parameter(torch.ones(1))\n"
        "optimizer = adamplus.AdamPlus([w])\n"
        "w.grad = torch.ones(1)\n"
        f"for _ in range({ENOUGH}): optimizer.step()\n"
        "del optimizer\n"
    )
    done = subprocess.run([sys.executable, "-Werror", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.startswith(f"adamplus: AdamPlus took {ENOUGH} steps, and its parameters were never at w")
