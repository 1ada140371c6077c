"""The paper's experiments as tasks: their data, their schedules, and how speech gets its targets."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from data.writers import write_an4, write_cifar
from tiny_sets import make_small, write_all, write_sentences

from adamplus.lab import tasks
from adamplus.lab._errors import InputError
from adamplus.lab._plan import plan
from adamplus.lab.data import an4
from adamplus.lab.speech import Sentence, Tying, aligned, chunks, deltas, flat_start, path_score, realigned, sentence
from adamplus.lab.speech import _aligned as speech_aligned
from adamplus.lab.speech._aligner import Item, align
from adamplus.lab.tasks import EXPERIMENTS, Moment
from adamplus.lab.tasks._paper import annealings, drops, saturations

ALL = [*(f"{name}{ending}" for name in EXPERIMENTS for ending in ("", "-paper")), "wikitext2-gpt"]


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
    def test_every_experiment_reads_its_format_and_its_model_takes_it(self, name: str):
        task = task_of(name)
        data = task.data()
        own = name.startswith("wikitext2")  # has validation text of its own
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
    def test_what_an_experiment_is_fits_a_line(self, name: str):
        assert 20 < len(tasks.describe(task_of(name))) < 120

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_missing_data_is_told_of_before_the_first_run(self, name: str, monkeypatch: Any, tmp_path: Path):
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        how: dict[str, Any] = {"tune": 0, "epochs": None, "search": "random", "device": "cpu", "precision": None}
        with pytest.raises(InputError, match=f"is not in {tmp_path}"):
            plan([name], ["sgd"], seeds=1, elsewhere=False, **how)
        plan([name], ["sgd"], seeds=1, elsewhere=True, **how)  # where the workers are, it may be there

    def test_a_tenth_of_the_images_is_held_out_and_never_trained_on(self):
        data = task_of("cifar10").data()
        rows = {split: {image.numpy().tobytes() for image in x} for split, (x, _) in data.items()}
        assert (len(rows["train"]), len(rows["validation"]), len(rows["test"])) == (36, 4, 8)
        assert not rows["train"] & rows["validation"]
        paper, _ = task_of("cifar10-paper").data()["train"]
        assert {image.numpy().tobytes() for image in paper} == rows["train"] | rows["validation"]

    def test_images_have_mean_and_deviation_of_the_set_taken_out(self):
        x, _ = task_of("cifar10-paper").data()["train"]
        # uniform bytes have the mean 0.5 and the deviation 0.289; the official images 0.491 and 0.247, in red
        assert float(x[:, 0].mean()) == pytest.approx((0.5 - 0.4914) / 0.2470, abs=0.02)
        assert float(x[:, 0].std()) == pytest.approx(0.289 / 0.2470, abs=0.02)

    def test_windows_of_text_go_on_where_the_last_ended(self):
        x, y = task_of("wikitext2").data()["train"]
        assert x.shape[1:] == (20, 35)
        assert torch.equal(x[:, :, 1:], y[:, :, :-1])
        assert torch.equal(x[1:, :, 0], y[:-1, :, -1])

    def test_no_speaker_is_in_two_splits(self, root: Path):
        data = task_of("an4").data()
        together, _ = task_of("an4-paper").data()["train"]
        assert len(data["train"][0]) + len(data["validation"][0]) == len(together)
        speakers = {one.speaker for one in aligned(root).train}
        assert not speakers & {one.speaker for one in aligned(root).test}
        assert len(data["validation"][0]) == len(together) // len(speakers)  # one of them

    def test_one_speaker_cannot_be_held_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write_an4(tmp_path, frames=60)
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        assert task_of("an4-paper").data()["train"][0].shape == (4, 21, 39)
        with pytest.raises(InputError, match="an4-paper holds out nobody"):
            task_of("an4").data()

    def test_switchboard_features_are_fused_and_kept_in_half_precision(self):
        x, y = task_of("swb300-paper").data()["train"]
        assert x.shape == (2, 21, 40 + 100 + 6)
        assert (x.dtype, y.dtype) == (torch.float16, torch.int64)

    def test_an_edited_base_class_is_another_task(self, monkeypatch: pytest.MonkeyPatch):
        before = tasks.find("cifar10")[1]
        monkeypatch.setattr(tasks, "digest", lambda path: "other" if path.name == "_images.py" else "same")
        assert tasks.find("cifar10")[1] not in (before, "same")
        assert tasks.find("cifar10")[1] != tasks.find("wikitext2")[1]

    def test_another_root_is_other_data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write_cifar(tmp_path, rows=2)
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path))
        assert len(task_of("cifar10-paper").data()["train"][0]) == 10


class TestSchedules:
    @pytest.mark.parametrize(("epochs", "first", "second"), [(350, 150, 250), (35, 15, 25), (70, 30, 50), (7, 3, 5)])
    def test_images_drop_at_the_same_parts_of_any_run(self, epochs: int, first: int, second: int):
        assert [drops(epoch, epochs) for epoch in range(epochs)] == [
            (epoch >= first) + (epoch >= second) for epoch in range(epochs)
        ]
        assert task_of("cifar10-paper").schedule(now(second, epochs)) == {"lr": pytest.approx(0.01)}

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_the_paper_lowers_no_rate_of_adam_and_adagrad_and_a_tuned_comparison_everybodys(self, name: str):
        history = [{"validation_loss": 1.0}, {"validation_loss": 2.0}]
        for optimizer in ("adam", "adagrad"):
            assert task_of(f"{name}-paper").schedule(now(19, 20, optimizer, history)) == {}
            assert task_of(name).schedule(now(19, 20, optimizer, history))["lr"] < 1
        for optimizer in ("sgd", "msgd", "nigt", "adam-plus"):
            assert task_of(f"{name}-paper").schedule(now(19, 20, optimizer, history))["lr"] < 1
        assert task_of(name).schedule(now(19, 20, "schedule-free-sgd", history)) == {}

    def test_speech_anneals_before_each_of_the_last_ten_epochs(self):
        assert [annealings(epoch, 20) for epoch in range(20)] == [0] * 10 + list(range(1, 11))
        assert [annealings(epoch, 4) for epoch in range(4)] == [0, 0, 1, 6]  # where 20 epochs stand at 10 and 15
        assert task_of("an4-paper").schedule(now(11, 20))["lr"] == pytest.approx(0.5)

    def test_text_divides_rate_and_beta_by_four_after_each_epoch_that_does_not_improve(self):
        losses = [5.0, 4.0, 4.5, 3.9, 3.9, math.nan]
        counts = [saturations([{"validation_loss": loss} for loss in losses[:i]]) for i in range(7)]
        assert counts == [0, 0, 0, 1, 1, 2, 3]  # level is no improvement, and neither is what is no number
        history = [{"validation_loss": loss} for loss in losses[:3]]
        assert task_of("wikitext2-paper").schedule(now(3, 40, "adam-plus", history)) == {"lr": 0.25, "beta": 0.25}


SAID = {"GO": [["G", "OW"]], "YES": [["Y", "EH", "S"], ["Y", "S"]]}


class TestSpeech:
    def test_a_sentence_is_silence_words_with_pauses_that_can_be_left_out_and_silence(self):
        one = sentence(["GO", "YES"], SAID)
        assert [context[1] for context in one.contexts[::3]] == ["SIL", "G", "OW", "SIL", "Y", "EH", "S", "SIL"]
        assert one.optional == frozenset({9, 10, 11})
        assert one.contexts[3] == ("SIL", "G", "OW")
        assert one.contexts[6] == ("G", "OW", "Y")  # beyond the pause, if there is one
        assert sentence([], SAID).contexts[::3] == ((None, "SIL", None), (None, "SIL", None))

    def test_rare_contexts_share_the_classes_of_common_ones(self):
        often, once = sentence(["GO"], SAID), sentence(["GO", "YES"], SAID)
        tying = Tying.of([often] * 3 + [once], ["G", "OW", "Y", "EH", "S", "SIL"], seen=4)
        assert ("SIL", "G", "OW") in tying.numbers  # 4 times
        assert ("G", "OW", "SIL") not in tying.numbers  # 3 times
        classes = tying.of_places(once)
        assert [number % 3 for number in classes] == [0, 1, 2] * 8
        alone = tying.numbers[None, "OW", None]
        assert classes[6] == 3 * alone  # the phone's own, whatever its neighbours are
        assert classes[3] == 3 * tying.numbers["SIL", "G", "OW"]
        assert max(classes) < tying.classes == 3 * len(tying.numbers)

    def test_between_a_triphone_and_a_phone_there_is_the_phone_before_its_neighbour(self):
        two = [sentence(["GO"], {"GO": [["G", "OW"]]}), sentence(["YO"], {"YO": [["Y", "OW"]]})]
        tying = Tying.of(two, ["G", "Y", "OW", "SIL"], seen=2)
        assert tying.of_places(two[0])[6] == tying.of_places(two[1])[6] == 3 * tying.numbers[None, "OW", "SIL"]

    def test_deltas_are_slopes(self):
        made = deltas(torch.arange(20.0)[:, None] * torch.tensor([1.0, -2.0]))
        assert made.shape == (20, 6)
        torch.testing.assert_close(made[4:-4, 2:4], torch.tensor([1.0, -2.0]).expand(12, 2))
        torch.testing.assert_close(made[4:-4, 4:], torch.zeros(12, 2))

    def test_pieces_do_not_overlap_and_the_rest_is_left(self):
        assert torch.equal(chunks(torch.arange(50)), torch.arange(42).view(2, 21))
        assert chunks(torch.arange(20)).shape == (0, 21)

    @pytest.mark.parametrize("frames", [21, 22, 50])
    def test_a_flat_start_goes_through_every_state_in_order(self, frames: int):
        one = sentence(["GO", "YES"], SAID)
        assert_path(one, flat_start(one, frames), frames)

    def test_realignment_finds_the_best_of_all_paths(self):
        one = sentence(["GO", "YES"], {"GO": [["G"]], "YES": [["Y"]]})
        places, frames = len(one.contexts), 15
        for seed in range(5):
            scores = torch.randn(frames, places, generator=torch.Generator().manual_seed(seed))
            path = realigned(one, scores)
            assert_path(one, path, frames)
            assert path_score(scores, path) == pytest.approx(best_of_all(one, scores), rel=1e-5)

    def test_realignment_hears_a_pause_that_is_there(self):
        one = sentence(["GO", "YES"], {"GO": [["G"]], "YES": [["Y"]]})
        scores = torch.full((15, 15), -1.0)
        scores[torch.arange(15), torch.arange(15)] = 0.0
        assert realigned(one, scores).tolist() == list(range(15))

    def test_too_few_frames_cannot_be_aligned(self):
        one = sentence(["GO"], SAID)
        with pytest.raises(ValueError, match="11 frames are too few for a sentence of 12 states"):
            realigned(one, torch.zeros(11, 12))

    def test_each_round_raises_the_likelihood_and_the_last_moves_little(self, root: Path):
        train, test = items(root)
        paths, rounds = align(train, test, rounds=6)
        again, _ = align(train, test, rounds=6)
        assert all(torch.equal(a, b) for a, b in zip(paths, again, strict=True))
        assert all(one.gained >= 0 for one in rounds)
        assert rounds[0].gained > 0
        assert rounds[0].moved > rounds[-1].moved
        for item, path in zip((*train, *test), paths, strict=True):
            assert_path(item.sentence, path, len(item.features))

    def test_alignment_leaves_random_numbers_and_threads_alone(self, root: Path):
        train, test = items(root)
        before, threads = torch.get_rng_state(), torch.get_num_threads()
        align(train, test, rounds=1)
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == threads

    def test_an_alignment_is_kept_and_not_made_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write_sentences(tmp_path, speakers=2)
        first = aligned(tmp_path)
        monkeypatch.setattr(speech_aligned, "align", lambda *_: pytest.fail("it was there"))
        second = aligned(tmp_path)
        assert all(torch.equal(a.states, b.states) for a, b in zip(first.train, second.train, strict=True))
        assert len(list((tmp_path / ".alignments").glob("*.pt"))) == 1

    def test_data_that_cannot_be_written_beside_is_aligned_all_the_same(self, tmp_path: Path):
        write_sentences(tmp_path, speakers=2)
        (tmp_path / ".alignments").write_text("a file, where a folder should be")
        assert aligned(tmp_path).classes == 3 * 6

    def test_utterances_shorter_than_their_states_are_left_out(self, tmp_path: Path):
        write_an4(tmp_path, frames=20)  # GO YES has 21 states
        assert [len(split) for split in aligned(tmp_path)[:2]] == [1, 1]


def items(root: Path) -> tuple[list[Item], list[Item]]:
    found = an4.read(root)
    train, test = (
        [Item(one.features, sentence(one.words, found.pronunciations)) for one in split]
        for split in (found.train, found.test)
    )
    return train, test


def assert_path(one: Sentence, path: torch.Tensor, frames: int) -> None:
    """In order, from the first place to the last, with nothing left out that must be there."""
    assert len(path) == frames
    assert (path[0], path[-1]) == (0, len(one.contexts) - 1)
    assert bool((path.diff() >= 0).all())
    assert set(one.mandatory()) <= set(path.tolist())
    pauses = set(path.tolist()) & one.optional
    assert all({place - place % 3 + i for i in range(3)} <= pauses for place in pauses)  # whole ones


def best_of_all(one: Sentence, scores: torch.Tensor) -> float:
    """By trying every path."""

    def best(frame: int, place: int) -> float:
        own = float(scores[frame, place])
        if frame == len(scores) - 1:
            return own if place == len(one.contexts) - 1 else -math.inf
        after = [place, place + 1]
        if place + 1 in one.optional and place not in one.optional:
            after.append(place + 4)
        return own + max(best(frame + 1, other) for other in after if other < len(one.contexts))

    return best(0, 0)
