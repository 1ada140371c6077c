"""The embedded tasks have the data and models that they describe; unusable task files are rejected with a reason."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from adamplus.lab import tasks
from adamplus.lab.errors import InputError
from adamplus.lab.tasks import EMBEDDED, Task, digits, pydoc, tones

COMPLETE = '''"""A line that is learnt."""

import torch
from torch import nn

from adamplus.lab.tasks import Task


class Line(Task):
    """A line through points."""

    def data(self):
        x = torch.linspace(0, 1, 30).unsqueeze(1)
        return {"train": (x, 2 * x), "validation": (x, 2 * x), "test": (x, 2 * x)}

    def model(self):
        return nn.Linear(1, 1)

    def loss(self, outputs, y):
        return nn.functional.mse_loss(outputs, y)
'''


def task_of(name: str) -> Task:
    return tasks.find(name)[0]


def evaluated(task: Task, model: nn.Module, split: str, batch: int | None = None) -> dict[str, float]:
    """Metrics of a split, computed as in a run."""
    model.eval()
    task.begin(model)
    x, y = task.data()[split]
    sums: dict[str, Tensor] = {}
    with torch.no_grad():
        for inputs, targets in zip(x.split(batch or task.batch), y.split(batch or task.batch), strict=True):
            outputs = model(inputs)
            for key, value in {"loss": task.loss(outputs, targets), **task.metrics(outputs, targets)}.items():
                sums[key] = sums.get(key, torch.zeros(())) + len(inputs) * value
    return task.summary({key: float(value) / len(x) for key, value in sums.items()})


def trained(task: Task, lr: float, epochs: int) -> nn.Module:
    torch.manual_seed(0)
    x, y = task.data()["train"]
    model = task.model()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        model.train()
        task.begin(model)
        order = torch.arange(len(x)) if task.ordered else torch.randperm(len(x))
        for rows in order.split(task.batch):
            optimizer.zero_grad()
            task.loss(model(x[rows]), y[rows]).backward()
            if task.clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), task.clip)
            optimizer.step()
    return model


@pytest.mark.parametrize(
    ("name", "rows", "shape", "classes"),
    [
        ("digits", (1197, 300, 300), (1, 8, 8), 10),
        ("tones", (1280, 320, 320), (21, tones.FEATURES), tones.CLASSES),
        ("pydoc", (136, 29, 29), (pydoc.STREAMS, pydoc.LENGTH), None),
    ],
)
def test_data_has_its_shapes(name: str, rows: tuple[int, ...], shape: tuple[int, ...], classes: int | None):
    task = task_of(name)
    data = task.data()
    assert list(data) == ["train", "validation", "test"]
    assert tuple(len(x) for x, _ in data.values()) == rows
    for x, y in data.values():
        assert x.shape == (len(y), *shape)
        assert y.dtype == torch.int64
        outputs = task.model().eval()(x[:2])
        assert outputs.shape[:-1] == y[:2].shape
        assert classes is None or outputs.shape[-1] == classes
        assert int(y.min()) >= 0
        assert int(y.max()) < outputs.shape[-1]


@pytest.mark.parametrize("name", EMBEDDED)
def test_data_is_the_same_at_every_call_and_leaves_the_random_state_alone(name: str):
    task = task_of(name)
    first = {split: (x.clone(), y.clone()) for split, (x, y) in task.data().items()}
    {"digits": digits, "pydoc": pydoc, "tones": tones}[name]._splits.cache_clear()
    torch.manual_seed(77)
    before = torch.get_rng_state()
    for split, (x, y) in task.data().items():
        assert torch.equal(x, first[split][0])
        assert torch.equal(y, first[split][1])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["digits", "tones"])
def test_no_row_of_one_split_is_in_another(name: str):
    rows = [{x.numpy().tobytes() for x in x} for x, _ in task_of(name).data().values()]
    assert all(not a & b for i, a in enumerate(rows) for b in rows[:i])


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_seed_determines_the_initial_model(name: str):
    task = task_of(name)
    task.data()

    def start(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return nn.utils.parameters_to_vector(task.model().parameters())

    assert torch.equal(start(3), start(3))
    assert not torch.equal(start(3), start(4))


@pytest.mark.parametrize(
    ("name", "lr", "epochs", "best"),
    [
        ("digits", 0.005, 3, 0.8),  # 0.1 by chance
        ("tones", 0.01, 2, 0.5),  # 0.93 for the most frequent state
        ("pydoc", 0.01, 2, 60.0),  # 91 for a unigram model
    ],
)
def test_a_few_epochs_learn_more_than_chance(name: str, lr: float, epochs: int, best: float):
    task = task_of(name)
    found = evaluated(task, trained(task, lr, epochs), "test")[task.metric]
    assert found > best if task.better == "higher" else found < best


@pytest.mark.parametrize("name", EMBEDDED)
def test_metrics_do_not_depend_on_the_rows_per_evaluation_batch(name: str):
    task = task_of(name)
    task.data()
    model = task.model()
    one, several = evaluated(task, model, "test"), evaluated(task, model, "test", 5 * task.batch)
    assert one == pytest.approx(several, rel=1e-5)
    assert task.metric in one


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_description_fits_a_line(name: str):
    line = tasks.describe(task_of(name))
    assert 20 < len(line) < 120
    assert task_of(name).target is not None


class TestPydoc:
    def test_targets_are_the_next_words_and_windows_continue_the_last(self):
        x, y = task_of("pydoc").data()["train"]
        assert torch.equal(x[:, :, 1:], y[:, :, :-1])
        assert torch.equal(x[1:, :, 0], y[:-1, :, -1])
        streams = x.transpose(0, 1).reshape(pydoc.STREAMS, -1)
        assert torch.equal(streams[1:, 0], y[-1, :-1, -1])  # a stream continues the one before it

    def test_a_paragraph_of_several_topics_occurs_once(self):
        text = ["One is\nhere.\n\nTwo (2)", "two (2)\n\nthree_3"]
        assert list(pydoc._words(text)) == ["one", "is", "here", ".", "two", "(", "2", ")", "three_3"]

    def test_the_vocabulary_is_that_of_the_training_text(self):
        data = task_of("pydoc").data()
        words = task_of("pydoc").model()(data["test"][0][:1]).shape[-1]
        counts = torch.bincount(data["train"][0].flatten(), minlength=words)
        assert len(counts) == words
        assert int(counts.min()) > pydoc.SEEN // 2  # words after the last window are counted, but not in it
        for _, y in data.values():
            assert 0.05 < float((y == 0).float().mean()) < 0.35  # <unk>

    def test_state_is_kept_between_batches_and_reset_before_each_pass(self):
        task = task_of("pydoc")
        x, _ = task.data()["test"]
        model = task.model().eval()
        with torch.no_grad():
            task.begin(model)
            first, second = model(x[:1]), model(x[1:2])
            task.begin(model)
            together = model(x[:2])
            task.begin(model)
            alone = model(x[1:2])
        torch.testing.assert_close(torch.cat([first, second]), together)
        assert (second - alone).abs().max() > 1e-3

    def test_state_stays_at_its_address_and_out_of_the_backward_pass(self):
        task = task_of("pydoc")
        x, y = task.data()["train"]
        model = task.model()
        assert isinstance(model, pydoc.Model)
        places = model.lstm.hidden.data_ptr(), model.lstm.cell.data_ptr()
        for i in range(3):
            task.loss(model(x[i : i + 1]), y[i : i + 1]).backward()  # through the last window alone, or it would raise
        assert (model.lstm.hidden.data_ptr(), model.lstm.cell.data_ptr()) == places
        assert not model.lstm.hidden.requires_grad
        assert not any("hidden" in name for name in model.state_dict())

    def test_the_state_of_a_wrapped_model_is_reset_too(self):
        task = task_of("pydoc")
        x, _ = task.data()["test"]
        inner = task.model()
        outer = nn.Sequential(inner)
        outer(x[:1])
        assert isinstance(inner, pydoc.Model)
        assert inner.lstm.cell.abs().max() > 0
        task.begin(outer)
        assert inner.lstm.cell.abs().max() == inner.lstm.hidden.abs().max() == 0

    @pytest.mark.parametrize("loss", [0.0, 4.2, 2000.0, math.inf])
    def test_perplexity_is_the_exponential_of_the_loss(self, loss: float):
        expected = math.exp(loss) if loss < 100 else math.inf
        assert task_of("pydoc").summary({"loss": loss}) == {"loss": loss, "perplexity": expected}

    def test_the_perplexity_of_a_nan_loss_is_nan(self):
        assert math.isnan(task_of("pydoc").summary({"loss": math.nan})["perplexity"])


class TestTones:
    def test_the_states_of_a_phone_come_in_order(self):
        for _, y in task_of("tones").data().values():
            now, then = y[:, :-1], y[:, 1:]
            inside = now % tones.STATES < tones.STATES - 1
            assert bool(((then == now) | (then == now + 1) | ~inside).all())
            left = ~inside & (then != now)
            assert bool((then[left] % tones.STATES == 0).all())
            assert float((then == now).float().mean()) > 0.4  # states last

    def test_a_frame_alone_does_not_determine_its_state(self):
        """A classifier by the nearest class mean makes more errors than the model's target."""
        data = task_of("tones").data()
        x, y = data["train"]
        means = torch.stack([x[y == state].mean(0) for state in range(tones.CLASSES)])
        inputs, targets = data["test"]
        nearest = torch.cdist(inputs.flatten(0, 1), means).argmin(1)
        assert float((nearest != targets.flatten()).float().mean()) > 0.2


def test_an_unknown_task_gets_suggestions():
    with pytest.raises(InputError, match="unknown task 'digit': did you mean digits"):
        tasks.find("digit")
    with pytest.raises(InputError, match="choose from digits, pydoc, tones"):
        tasks.find("zzz")
    with pytest.raises(InputError, match=r"the name of a file must end in \.py"):
        tasks.find("./my_task")


def test_an_edit_of_a_task_file_changes_its_digest_unless_it_is_a_comment(tmp_path: Path):
    file = tmp_path / "line.py"
    file.write_text(COMPLETE)
    task, digest = tasks.find(str(file))
    assert tasks.describe(task) == "A line through points."
    assert evaluated(task, trained(task, 0.1, 20), "test")["loss"] < 0.1
    file.write_text(COMPLETE.replace("A line through points.", "A line.") + "\n# edited\n")
    task, same = tasks.find(str(file))
    assert (tasks.describe(task), same) == ("A line.", digest)  # comments and docstrings change no numbers
    file.write_text(COMPLETE + "\nEDITED = True\n")
    assert tasks.find(str(file))[1] != digest


TWO = COMPLETE + "\n\nclass Other(Line):\n    pass\n"
PARTIAL = COMPLETE[: COMPLETE.index("    def model")]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, r"mine\.py: there is no such file; it should define a task"),
        ("", r"mine\.py must define exactly one subclass of Task, got 0: see docs/extending.md"),
        ("from adamplus.lab.tasks import Task\n", "exactly one subclass of Task, got 0"),
        (TWO, "exactly one subclass of Task, got 2"),
        (PARTIAL, r"Line must define loss\(\), model\(\): see docs/extending.md"),
        ("x = 1\nclass Line(Task:\n", "line 2: "),
        ("\nimport nowhere_to_be_found\n", "line 2: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    ],
    ids=["missing", "empty", "imported only", "two", "incomplete", "syntax", "import"],
)
def test_a_file_without_a_usable_task_is_rejected_with_the_reason(code: str | None, message: str, tmp_path: Path):
    file = tmp_path / "mine.py"
    if code is not None:
        file.write_text(code)
    with pytest.raises(InputError, match=message):
        tasks.find(str(file))
