"""The data, digests and schedules of the paper's experiments."""

import itertools
import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data.writers import speech, write_an4, write_archives, write_cifar, write_novels, write_swb300, write_wikitext
from tiny_sets import make_small, write_all
from torch import nn

from adamplus.lab import tasks
from adamplus.lab._compare.plan import plan
from adamplus.lab._compare.request import Request
from adamplus.lab._run import evaluation as _evaluation
from adamplus.lab.data import novels
from adamplus.lab.data.alignment import read_aligned
from adamplus.lab.errors import InputError
from adamplus.lab.tasks import Moment, registry
from adamplus.lab.tasks.novels import GPT2, NovelsGPT
from adamplus.lab.tasks.schedules import annealings, drops, saturations

EXPERIMENTS = ("cifar10", "cifar100", "wikitext2", "an4", "swb300")
BYTES = ("novels-gpt", "gpt2-124m")
ALL = [*(f"{name}{ending}" for name in EXPERIMENTS for ending in ("", "-paper")), "wikitext2-gpt", *BYTES]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    make_small(monkeypatch, root)


def now(epoch: int, epochs: int, optimizer: str = "sgd", history: Any = ()) -> Moment:
    return Moment(epoch, epochs, optimizer, history)


def task_of(name: str) -> tasks.Task:
    return tasks.find(name)[0]


class TestData:
    @pytest.mark.parametrize("name", ALL)
    def test_every_experiment_reads_its_data_and_its_model_accepts_it(self, name: str):
        task = task_of(name)
        data = task.data()
        own = name.startswith("wikitext2")  # the set has validation text
        assert set(data) == {"train", "test", *(["validation"] if own or not name.endswith("-paper") else [])}
        model = task.model().eval()
        for x, y in data.values():
            assert len(x) == len(y) > 0
            task.begin(model)
            with torch.no_grad():
                outputs = model(x[: task.batch])
            assert outputs.shape[:-1] == y[: task.batch].shape
            assert int(y.max()) < outputs.shape[-1]
            assert math.isfinite(float(task.loss(outputs, y[: task.batch])))
            assert task.metric in task.summary(
                {"loss": 1.0, **dict.fromkeys(task.metrics(outputs, y[: task.batch]), 1.0)}
            )

    @pytest.mark.parametrize("name", ALL)
    def test_a_description_fits_a_line(self, name: str):
        assert 20 < len(tasks.describe(task_of(name))) < 120

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_missing_data_is_reported_before_the_first_run(self, name: str, monkeypatch: Any, tmp_path: Path):
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        with pytest.raises(InputError, match=f"is not in {tmp_path}"):
            plan(Request([name], ["sgd"], device="cpu"))
        plan(Request([name], ["sgd"], device="cpu", engine="ray"))  # the workers may have it

    def test_a_tenth_of_the_images_is_held_out_and_never_trained_on(self):
        data = task_of("cifar10").data()
        rows = {split: {image.numpy().tobytes() for image in x} for split, (x, _) in data.items()}
        assert (len(rows["train"]), len(rows["validation"]), len(rows["test"])) == (36, 4, 8)
        assert not rows["train"] & rows["validation"]
        paper, _ = task_of("cifar10-paper").data()["train"]
        assert {image.numpy().tobytes() for image in paper} == rows["train"] | rows["validation"]

    def test_images_are_normalized_by_the_mean_and_deviation_of_the_official_set(self):
        x, _ = task_of("cifar10-paper").data()["train"]
        # uniform bytes have the mean 0.5 and the deviation 0.289; the official images 0.491 and 0.247, in red
        assert float(x[:, 0].mean()) == pytest.approx((0.5 - 0.4914) / 0.2470, abs=0.02)
        assert float(x[:, 0].std()) == pytest.approx(0.289 / 0.2470, abs=0.02)

    def test_a_window_of_text_continues_the_last(self):
        x, y = task_of("wikitext2").data()["train"]
        assert x.shape[1:] == (20, 35)
        assert torch.equal(x[:, :, 1:], y[:, :, :-1])
        assert torch.equal(x[1:, :, 0], y[:-1, :, -1])

    def test_the_targets_of_the_gpt_are_the_next_words(self):
        for x, y in task_of("wikitext2-gpt").data().values():
            assert x.shape == y.shape
            assert x.shape[1] == 256
            assert torch.equal(x.flatten()[1:], y.flatten()[:-1])

    @pytest.mark.parametrize("name", BYTES)
    def test_windows_of_novels_are_spread_over_the_text_without_overlap(self, name: str, root: Path):
        texts = {split: bytes(text.tolist()) for split, text in novels.read(root)._asdict().items()}
        for split, (x, y) in task_of(name).data().items():
            assert (x.shape, x.dtype) == ((200 if split == "train" else 12, 16), torch.uint8)
            assert torch.equal(x[:, 1:], y[:, :-1])
            ends, text = [], texts[split]
            for row, after in zip(x, y, strict=True):
                start = text.index(bytes(row.tolist() + after[-1:].tolist()), ends[-1] if ends else 0)
                ends.append(start + 16)
            assert text.startswith(bytes(x[0].tolist()))
            assert text.endswith(bytes(y[-1].tolist()))

    def test_novels_of_too_few_bytes_are_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write_novels(tmp_path, length=190)
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        with pytest.raises(InputError, match=r": 190 bytes of validation text are too few for 12 windows of 16"):
            task_of("novels-gpt").data()

    @pytest.mark.parametrize(("name", "graphed"), [("wikitext2", False), ("wikitext2-paper", True)])
    def test_perplexity_is_that_of_the_whole_text_in_one_pass(
        self, name: str, graphed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """State carries over from window to window, but not from one split or pass to the next.

        A captured graph reads the current window, and its warm-up leaves no state behind.
        """
        warm_ups: list[int] = []

        def capture(function: Any, model: nn.Module) -> Any:
            warm_ups.append(len([function() for _ in range(3)]))
            return function

        monkeypatch.setattr(_evaluation, "capture", capture)
        lines = 120 * " the <unk> cat \n sat on \n the mat mat mat \n sat \n <unk> \n"
        write_wikitext(tmp_path, train=lines, valid=lines[60:], test=lines[90:])
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        task = task_of(name)
        data, model = task.data(), task.model()
        evaluation = _evaluation.Evaluation(task, model, model, data, nullcontext, graphed)
        found = evaluation.metrics(torch.optim.SGD(model.parameters(), 0.1))
        assert evaluation.metrics(torch.optim.SGD(model.parameters(), 0.1)) == found
        assert warm_ups == [3] * graphed  # one graph, because windows of all splits have the same shape
        for split in ("validation", "test"):
            x, y = data[split]
            task.begin(model)
            with torch.no_grad():
                loss = float(task.loss(model.eval()(x), y))
            assert len(x) > 1
            assert found[f"{split}_loss"] == pytest.approx(loss, rel=1e-5)
            assert found[f"{split}_perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)

    def test_images_are_padded_by_the_mean_colour(self):
        """Padding is zero, and the mean is subtracted from images."""
        task = task_of("cifar10-paper")
        x = torch.ones(200, 3, 32, 32)
        corners = task.augment(x)[:, :, 0, 0]
        assert set(corners.flatten().tolist()) == {0.0, 1.0}

    def test_no_speaker_is_in_two_splits(self, root: Path):
        data = task_of("an4").data()
        together, _ = task_of("an4-paper").data()["train"]
        assert len(data["train"][0]) + len(data["validation"][0]) == len(together)
        speakers = {one.speaker for one in read_aligned(root).train}
        assert not speakers & {one.speaker for one in read_aligned(root).test}
        assert len(data["validation"][0]) == len(together) // len(speakers)  # those of one speaker

    def test_a_single_speaker_cannot_be_held_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write_an4(tmp_path, frames=60)
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        assert task_of("an4-paper").data()["train"][0].shape == (4, 21, 39)
        with pytest.raises(InputError, match=r"has only one training speaker, .*: use an4-paper"):
            task_of("an4").data()

    def test_switchboard_features_are_concatenated_in_half_precision(self):
        x, y = task_of("swb300-paper").data()["train"]
        assert x.shape == (2, 21, 40 + 100 + 6)
        assert (x.dtype, y.dtype) == (torch.float16, torch.int64)

    def test_one_utterance_of_fifty_is_held_out_of_switchboard_and_never_trained_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        names = [f"u{i:03}" for i in range(101)]
        arrays = speech(dict.fromkeys(names, 21))
        for i, name in enumerate(names):
            arrays["fmllr"][name][:] = i
        write_archives(write_swb300(tmp_path) / "train", arrays)
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        data = task_of("swb300").data()
        found = {split: data[split][0][:, 0, 0].int().tolist() for split in ("train", "validation")}
        assert found["validation"] == [0, 50, 100]
        assert found["train"] == [i for i in range(101) if i % 50]
        assert len(task_of("swb300-paper").data()["train"][0]) == 101

    def test_features_beyond_half_precision_are_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        folder = write_swb300(tmp_path)
        arrays = speech({"a": 30, "b": 25})
        arrays["logmel"]["b"][3, 1] = 1e5
        write_archives(folder / "train", arrays)
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        with pytest.raises(
            InputError,
            match=r"train: utterance b has a feature of size 100,000, but .* half precision",
        ):
            task_of("swb300-paper").data()

    def test_speech_without_an_utterance_as_long_as_a_window_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        folder = write_swb300(tmp_path)
        write_archives(folder / "heldout", speech({"c": 20, "d": 12}, seed=1))
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        with pytest.raises(InputError, match=r"heldout: none of its 2 utterances is as long as a window, 21 frames"):
            task_of("swb300-paper").data()

    @pytest.mark.parametrize("name", ["wikitext2-paper", "wikitext2-gpt"])
    def test_text_that_fills_no_window_is_reported(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write_wikitext(tmp_path, train="a b c " * 400, valid="a b c", test="a b c " * 400)
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        with pytest.raises(InputError, match=r"its 4 words of validation text fill no window"):
            task_of(name).data()

    def test_switchboard_splits_of_different_widths_are_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        folder = write_swb300(tmp_path)
        arrays = speech({"c": 22}, seed=1)
        write_archives(folder / "heldout", {**arrays, "logmel": {"c": np.zeros((22, 9), np.float32)}})
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        with pytest.raises(InputError, match=r"train has 146 values per frame, and .*heldout has 149"):
            task_of("swb300").data()

    @pytest.mark.parametrize(
        ("edited", "changed"),
        [
            ("tasks/digits.py", {"digits"}),
            ("tasks/cifar.py", {"cifar10", "cifar10-paper"}),
            ("tasks/schedules.py", {"cifar10", "cifar10-paper", "wikitext2"}),
            ("tasks/novels.py", {"novels-gpt"}),
            ("tasks/language.py", {"wikitext2", "wikitext2-gpt", "novels-gpt", "pydoc"}),
            ("tasks/wikitext2.py", {"wikitext2"}),
            ("readers/cifar.py", {"cifar10", "cifar10-paper", "wikitext2", "wikitext2-gpt", "novels-gpt"}),
            ("alignment/aligner.py", {"cifar10", "cifar10-paper", "wikitext2", "wikitext2-gpt", "novels-gpt"}),
            ("tasks/task.py", set()),
        ],
    )
    def test_an_edit_changes_the_digests_of_the_tasks_that_use_the_file(
        self, edited: str, changed: set[str], monkeypatch: pytest.MonkeyPatch
    ):
        names = ("cifar10", "cifar10-paper", "wikitext2", "wikitext2-gpt", "novels-gpt", "pydoc", "digits")
        monkeypatch.setattr(registry, "digest", lambda path: "same")
        before = {name: tasks.find(name)[1] for name in names}
        monkeypatch.setattr(registry, "digest", lambda path: "other" if path.as_posix().endswith(edited) else "same")
        assert {name for name in names if tasks.find(name)[1] != before[name]} == changed

    def test_every_registered_task_has_its_own_digest(self):
        digests = {name: tasks.find(name)[1] for name in tasks.TASKS}
        assert len(set(digests.values())) == len(tasks.TASKS) == 26

    def test_another_root_is_read_anew(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write_cifar(tmp_path, rows=2)
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        assert len(task_of("cifar10-paper").data()["train"][0]) == 10


@pytest.mark.parametrize(("task", "steps", "parameters"), [(NovelsGPT, 1500, 25_613_312), (GPT2, 100, 124_475_904)])
def test_gpts_of_novels_have_their_documented_sizes(
    task: type[NovelsGPT], steps: int, parameters: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.undo()  # the sizes of the class, and not those for tests
    assert task.windows["train"] == steps * task.batch
    assert task.windows["train"] // task.epochs_per_pass % task.batch == 0  # all steps have full batches
    assert task.epochs == task.epochs_per_pass
    with torch.device("meta"):
        assert sum(p.numel() for p in task().model().parameters()) == parameters


class TestSchedules:
    def test_the_small_gpt_warms_up_for_100_of_1200_steps_and_follows_a_cosine(self):
        task = task_of("wikitext2-gpt")
        assert task.stepwise
        rates = [
            task.schedule(Moment(epoch, 5, "adamw", (), step / 240))["lr"] for epoch in range(5) for step in range(240)
        ]
        assert 0 < rates[0] < 0.02
        assert all(a < b for a, b in itertools.pairwise(rates[:101]))
        assert rates[100] == pytest.approx(1.0)
        assert all(a > b for a, b in itertools.pairwise(rates[100:]))
        assert rates[650] == pytest.approx(0.5)
        assert 0 < rates[-1] < 1e-4

    def test_the_gpt_of_novels_warms_up_for_100_of_1500_steps_and_ends_at_2_percent(self):
        task = task_of("novels-gpt")
        rates = [
            task.schedule(Moment(epoch, 10, "adamw", (), step / 150))["lr"]
            for epoch in range(10)
            for step in range(150)
        ]
        assert 0 < rates[0] < 0.02
        assert rates[50] == pytest.approx(0.5)
        assert rates[100] == pytest.approx(1.0)
        assert all(a > b for a, b in itertools.pairwise(rates[100:]))
        assert rates[800] == pytest.approx(0.51)
        assert rates[-1] == pytest.approx(0.02, abs=1e-5)

    @pytest.mark.parametrize(("epochs", "first", "second"), [(350, 150, 250), (35, 15, 25), (70, 30, 50), (7, 3, 5)])
    def test_the_drops_on_images_are_at_the_same_fractions_of_any_run(self, epochs: int, first: int, second: int):
        assert [drops(epoch, epochs) for epoch in range(epochs)] == [
            (epoch >= first) + (epoch >= second) for epoch in range(epochs)
        ]
        assert task_of("cifar10-paper").schedule(now(second, epochs)) == {"lr": pytest.approx(0.01)}

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_the_paper_keeps_adam_and_adagrad_constant_and_tuning_schedules_all_optimizers(self, name: str):
        history = [{"validation_loss": 1.0}, {"validation_loss": 2.0}]
        for optimizer in ("adam", "adagrad"):
            assert task_of(f"{name}-paper").schedule(now(19, 20, optimizer, history)) == {}
            assert task_of(name).schedule(now(19, 20, optimizer, history))["lr"] < 1
        for optimizer in ("sgd", "msgd", "nigt", "adam-plus"):
            assert task_of(f"{name}-paper").schedule(now(19, 20, optimizer, history))["lr"] < 1
        assert task_of(name).schedule(now(19, 20, "schedule-free-sgd", history)) == {}

    def test_speech_anneals_before_each_of_the_last_ten_epochs(self):
        assert [annealings(epoch / 20) for epoch in range(20)] == [0] * 10 + list(range(1, 11))
        assert [annealings((epoch + 0.99) / 20) for epoch in range(20)] == [0] * 10 + list(range(1, 11))
        two = [annealings(Moment(1, 2, "msgd", [], part / 10).progress) for part in range(10)]
        assert two == list(range(1, 11))  # a tenth of the epochs: the same rates, a tenth of an epoch each
        assert task_of("an4-paper").schedule(now(11, 20))["lr"] == pytest.approx(0.5)

    def test_text_divides_rate_and_beta_by_four_after_each_epoch_that_does_not_improve(self):
        losses = [5.0, 4.0, 4.5, 3.9, 3.9, math.nan]
        counts = [saturations([{"validation_loss": loss} for loss in losses[:i]]) for i in range(7)]
        assert counts == [0, 0, 0, 1, 1, 2, 3]  # an equal loss is no improvement, nor is NaN
        history = [{"validation_loss": loss} for loss in losses[:3]]
        assert task_of("wikitext2-paper").schedule(now(3, 40, "adam-plus", history)) == {"lr": 0.25, "beta": 0.25}
