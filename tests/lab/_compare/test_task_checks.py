"""What can be wrong with a task is told before the first run."""

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
    return plan(Request([task], ["sgd"], **{"device": "cpu", **options}), processes)


# What a task can have wrong: what of the small one is replaced, by what, and what is said.
WRONG = {
    "epochs is '2', and has to be a whole number": ("epochs = 4", "epochs = '2'"),
    "batch is 0, and has to be a whole number of 1 or more": ("batch = 16", "batch = 0"),
    "batch is True, and": ("batch = 16", "batch = True"),
    "better is 'up', and can be 'lower' or 'higher'": ("batch = 16", "batch = 16; better = 'up'"),
    "metric is 3, and has to be a name": ("batch = 16", "batch = 16; metric = 3"),
    "target is '0.9', and has to be a number or None": ("batch = 16", "batch = 16; target = '0.9'"),
    "clip is -1, and has to be a number above 0": ("batch = 16", "batch = 16; clip = -1"),
    "train_rows is 0.5, and has to be": ("batch = 16", "batch = 16; train_rows = 0.5"),
    "its task cannot be made (without arguments): TypeError: ": (
        "def data(",
        "def __init__(self, n): pass\n    def data(",
    ),
    "its task cannot be made (without arguments): it called sys.exit(3)": (
        "class Plane",
        "raise SystemExit(3)\nclass Plane",
    ),
    "data() raised: it called sys.exit('no')": ("generator =", "raise SystemExit('no'); generator ="),
    "data() raised: FileNotFoundError: ": ("generator =", "open('no/such/file'); generator ="),
    "data() gives a list, and has to give a dictionary": ('return {"train"', 'return [0]; {"train"'),
    "data() has no split 'test': it has 'train', 'validation', 'tset'": ('"test":', '"tset":'),
    "data() has no split 'validation' (which --tune chooses by): it has": ('"validation":', '"val":'),
    "the split 'train' is ['Tensor', 'list'], and has to be two tensors": ("y[:64])", "['a'] * 64)"),
    "the split 'test' is Tensor, and has to be two tensors": ("(x[80:], y[80:])", "x[80:]"),
    "the split 'train' has inputs [64, 4] and targets [63, 1]": ("y[:64]", "y[:63]"),
    "the split 'test' has no rows": ("(x[80:], y[80:])", "(x[96:], y[96:])"),
    "model() raised: ValueError: none": ("return nn.Linear(4, 1)", "raise ValueError('none')"),
    "model() gives a NoneType": ("return nn.Linear(4, 1)", "return None"),
    "the model has no parameters to train": ("nn.Linear(4, 1)", "nn.Identity()"),
    "the model cannot take 2 rows of the test data: RuntimeError": ("nn.Linear(4, 1)", "nn.Linear(5, 1)"),
    "loss() raised: TypeError": ("mse_loss(outputs, y)", "mse_loss(outputs)"),
    "loss is a tensor of shape [2, 1], and has to be a tensor of one number": (
        "mse_loss(outputs, y)",
        "mse_loss(outputs, y, reduction='none')",
    ),
    "metrics() raised: ZeroDivisionError": ("HOOK", "return {'e': 1 / 0}"),
    "metrics() gives a float, and has to give a dictionary": ("HOOK", "return 0.5"),
    "e is float, and has to be a tensor of one number": ("HOOK", "return {'e': float(outputs.mean())}"),
    "metrics() has a 'loss', which is what loss() gives": ("HOOK", "return {'loss': outputs.mean()}"),
    "a metric is called 'a/b <i>': names are of letters": ("HOOK", "return {'a/b <i>': outputs.mean()}"),
    "a metric is called 'y_hat': names": ("HOOK", "return {'y_hat': outputs.mean()}"),
    "it is judged by 'accuracy', and measures loss": ("batch = 16", "batch = 16; metric = 'accuracy'"),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_with_a_task_is_told_before_anything_is_run(tmp_path: Path, message: str):
    task, (old, new) = Path(write_task(tmp_path / "plane.py")), WRONG[message]
    text = task.read_text() + "\n    def metrics(self, outputs, y):\n        HOOK\n        return {}\n"
    assert old in text
    task.write_text(text.replace(old, new).replace("HOOK", "pass"))
    with pytest.raises(InputError, match=re.escape(f"{task}: {message}")):
        compare([str(task)], ["sgd"], tune=1, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_who_tunes_nothing_needs_no_validation_data_and_what_a_summary_makes_can_be_judged_by(tmp_path: Path):
    task = Path(write_task(tmp_path / "plane.py"))
    text = task.read_text().replace('"validation": (x[64:80], y[64:80]), ', "")
    summary = (
        "\n    metric = 'root'\n    def summary(self, means):\n        return {**means, 'root': means['loss'] ** 0.5}\n"
    )
    task.write_text(text + summary)
    planned(str(task))
    with pytest.raises(InputError, match="has no split 'validation'"):
        planned(str(task), tune=1)


def test_a_check_takes_no_random_numbers_and_leaves_data_that_is_elsewhere_alone(tmp_path: Path):
    task = Path(write_task(tmp_path / "plane.py"))
    before = torch.get_rng_state()
    planned(str(task))
    assert torch.equal(torch.get_rng_state(), before)
    task.write_text(task.read_text().replace("generator =", "open('no/such/file'); generator ="))
    planned(str(task), engine="ray")


@pytest.mark.parametrize("name", tasks.EMBEDDED)
def test_the_tasks_that_come_along_are_whole(name: str):
    planned(name, tune=1)


def test_processes_that_cannot_share_a_batch_are_told_so(tmp_path: Path):
    task = write_task(tmp_path / "plane.py")
    planned(task, 4)
    with pytest.raises(InputError, match="3 processes cannot share batches of 16 rows: start a number that divides"):
        planned(task, 3)
    with pytest.raises(InputError, match="--device must be cpu or cuda, got cuda:1: under torchrun, each process"):
        planned(task, 4, device="cuda:1")


@pytest.mark.parametrize("rows", [0, -5, "x", 2.5])
def test_rows_of_an_evaluation_are_a_number(rows: Any, tmp_path: Path):
    task = write_task(tmp_path / "plane.py")
    Path(task).write_text(Path(task).read_text().replace("batch = 16", f"batch = 16\n    evaluation_rows = {rows!r}"))
    with pytest.raises(InputError, match=re.escape(f"evaluation_rows is {rows!r}, and has to be a whole number of 1")):
        compare([task], ["sgd"], seeds=1, out=tmp_path / "runs")
