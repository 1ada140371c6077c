"""Errors of a task are reported before the first run."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from small_comparison import write_task

from adamplus.lab import tasks
from adamplus.lab._compare.comparison import compare
from adamplus.lab._compare.plan import Plan, plan
from adamplus.lab._compare.request import Request
from adamplus.lab.errors import InputError


def planned(task: str, processes: int = 1, **options: Any) -> Plan:
    """The plan of a comparison on one task, with one optimizer."""
    return plan(Request([task], ["sgd"], **{"device": "cpu", "tune": 0, **options}), processes)


# The message of each error, and the replacement in the small task that causes it.
WRONG = {
    "epochs must be a whole number of at least 1, got '2'": ("epochs = 4", "epochs = '2'"),
    "batch must be a whole number of at least 1, got 0": ("batch = 16", "batch = 0"),
    "batch must be a whole number of at least 1, got True": ("batch = 16", "batch = True"),
    "epochs_per_pass must be a whole number of at least 1, got 0": ("batch = 16", "batch = 16; epochs_per_pass = 0"),
    "epochs_per_pass must not exceed the number of training rows, got 65 and 64 rows": (
        "batch = 16",
        "batch = 16; epochs_per_pass = 65",
    ),
    "better must be 'lower' or 'higher', got 'up'": ("batch = 16", "batch = 16; better = 'up'"),
    "metric must be a name, as 'loss', got 3": ("batch = 16", "batch = 16; metric = 3"),
    "target must be a number or None, got '0.9'": ("batch = 16", "batch = 16; target = '0.9'"),
    "clip must be a number above 0 or None, got -1": ("batch = 16", "batch = 16; clip = -1"),
    "train_rows must be a whole number or None, got 0.5": ("batch = 16", "batch = 16; train_rows = 0.5"),
    "its task cannot be made (without arguments): TypeError: ": (
        "def data(",
        "def __init__(self, n): pass\n    def data(",
    ),
    "its task cannot be made (without arguments): it called sys.exit(3)": (
        "def data(",
        "def __init__(self): raise SystemExit(3)\n    def data(",
    ),
    "data() raised: it called sys.exit('no')": ("generator =", "raise SystemExit('no'); generator ="),
    "data() raised: FileNotFoundError: ": ("generator =", "open('no/such/file'); generator ="),
    "data() must return a dictionary of splits, got list": ('return {"train"', 'return [0]; {"train"'),
    "data() has no split 'test': it has 'train', 'validation', 'tset'": ('"test":', '"tset":'),
    "data() has no split 'validation' (--tune chooses settings by it; --tune 0 chooses none): it has": (
        '"validation":',
        '"val":',
    ),
    "the split 'train' must be two tensors, inputs and targets, got ['Tensor', 'list']": ("y[:64])", "['a'] * 64)"),
    "the split 'test' must be two tensors, inputs and targets, got Tensor": ("(x[80:], y[80:])", "x[80:]"),
    "the split 'train' must have as many inputs as targets, got shapes [64, 4] and [63, 1]": ("y[:64]", "y[:63]"),
    "the split 'test' has no rows": ("(x[80:], y[80:])", "(x[96:], y[96:])"),
    "model() raised: ValueError: none": ("return nn.Linear(4, 1)", "raise ValueError('none')"),
    "model() must return an nn.Module, got NoneType": ("return nn.Linear(4, 1)", "return None"),
    "the model has no parameters to train": ("nn.Linear(4, 1)", "nn.Identity()"),
    "the model cannot take 2 rows of the test data: RuntimeError": ("nn.Linear(4, 1)", "nn.Linear(5, 1)"),
    "loss() raised: TypeError": ("mse_loss(outputs, y)", "mse_loss(outputs)"),
    "loss must be a tensor of one number, a mean over the batch, got a tensor of shape [2, 1]": (
        "mse_loss(outputs, y)",
        "mse_loss(outputs, y, reduction='none')",
    ),
    "metrics() raised: ZeroDivisionError": ("HOOK", "return {'e': 1 / 0}"),
    "metrics() must return a dictionary, got float": ("HOOK", "return 0.5"),
    "e must be a tensor of one number, a mean over the batch, got float": (
        "HOOK",
        "return {'e': float(outputs.mean())}",
    ),
    "metrics() must not have a 'loss', which loss() returns": ("HOOK", "return {'loss': outputs.mean()}"),
    "the metric 'a/b <i>' must have a name of letters": (
        "HOOK",
        "return {'a/b <i>': outputs.mean()}",
    ),
    "the metric 'y_hat' must have a name of letters": (
        "HOOK",
        "return {'y_hat': outputs.mean()}",
    ),
    "metric must be one of loss, got 'accuracy'": ("batch = 16", "batch = 16; metric = 'accuracy'"),
}


@pytest.mark.parametrize("message", WRONG)
def test_an_error_in_a_task_is_reported_before_any_run(tmp_path: Path, message: str):
    task, (old, new) = Path(write_task(tmp_path / "plane.py")), WRONG[message]
    text = task.read_text() + "\n    def metrics(self, outputs, y):\n        HOOK\n        return {}\n"
    assert old in text
    task.write_text(text.replace(old, new).replace("HOOK", "pass"))
    with pytest.raises(InputError, match=re.escape(f"{task}: {message}")):
        compare([str(task)], ["sgd"], tune=1, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_validation_data_is_needed_only_to_tune_and_a_summary_can_make_the_metric(tmp_path: Path):
    task = Path(write_task(tmp_path / "plane.py"))
    text = task.read_text().replace('"validation": (x[64:80], y[64:80]), ', "")
    summary = (
        "\n    metric = 'root'\n    def summary(self, means):\n        return {**means, 'root': means['loss'] ** 0.5}\n"
    )
    task.write_text(text + summary)
    planned(str(task))
    with pytest.raises(InputError, match="has no split 'validation'"):
        planned(str(task), tune=1)


def test_a_check_takes_no_random_numbers_and_with_ray_reads_no_data(tmp_path: Path):
    task = Path(write_task(tmp_path / "plane.py"))
    before = torch.get_rng_state()
    planned(str(task))
    assert torch.equal(torch.get_rng_state(), before)
    task.write_text(task.read_text().replace("generator =", "open('no/such/file'); generator ="))
    planned(str(task), engine="ray")


@pytest.mark.parametrize("name", tasks.EMBEDDED)
def test_the_embedded_tasks_pass_the_checks(name: str):
    planned(name, tune=1)


def test_the_number_of_processes_must_divide_the_batch(tmp_path: Path):
    task = write_task(tmp_path / "plane.py")
    planned(task, 4)
    with pytest.raises(InputError, match="must divide the batch of 16 rows, got 3 processes"):
        planned(task, 3)
    with pytest.raises(InputError, match="--device must be cpu or cuda, got cuda:1: under torchrun, each process"):
        planned(task, 4, device="cuda:1")


@pytest.mark.parametrize("rows", [0, -5, "x", 2.5])
def test_rows_of_an_evaluation_must_be_a_whole_number(rows: Any, tmp_path: Path):
    task = write_task(tmp_path / "plane.py")
    Path(task).write_text(Path(task).read_text().replace("batch = 16", f"batch = 16\n    evaluation_rows = {rows!r}"))
    with pytest.raises(
        InputError, match=re.escape(f"evaluation_rows must be a whole number of at least 1, or None, got {rows!r}")
    ):
        compare([task], ["sgd"], seeds=1, out=tmp_path / "runs")
