"""Features, tied states and alignment of speech."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from data.writers import write_an4
from tiny_sets import write_sentences

from adamplus.lab._store import digest
from adamplus.lab.data.alignment import (
    Sentence,
    Tying,
    aligner,
    best_path,
    chunks,
    deltas,
    flat_start,
    read_aligned,
    sentence,
)
from adamplus.lab.data.alignment import alignments as _alignments
from adamplus.lab.data.alignment.aligner import Item, align
from adamplus.lab.data.alignment.features import normalized
from adamplus.lab.data.alignment.viterbi import path_score
from adamplus.lab.data.readers import an4
from adamplus.lab.errors import InputError


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    write_sentences(root)
    return root


PRONUNCIATIONS = {"GO": [["G", "OW"]], "YES": [["Y", "EH", "S"], ["Y", "S"]]}


class TestSpeech:
    def test_a_sentence_has_silence_at_its_ends_and_optional_pauses(self):
        one = sentence(["GO", "YES"], PRONUNCIATIONS)
        assert [context[1] for context in one.contexts[::3]] == ["SIL", "G", "OW", "SIL", "Y", "EH", "S", "SIL"]
        assert one.optional == frozenset({9, 10, 11})
        assert one.contexts[3] == ("SIL", "G", "OW")
        assert one.contexts[6] == ("G", "OW", "Y")  # the neighbour beyond the optional pause
        assert sentence([], PRONUNCIATIONS).contexts[::3] == ((None, "SIL", None), (None, "SIL", None))

    def test_rare_contexts_share_the_classes_of_frequent_ones(self):
        often, once = sentence(["GO"], PRONUNCIATIONS), sentence(["GO", "YES"], PRONUNCIATIONS)
        tying = Tying.of([often] * 3 + [once], ["G", "OW", "Y", "EH", "S", "SIL"], seen=4)
        assert ("SIL", "G", "OW") in tying.numbers  # 4 times
        assert ("G", "OW", "SIL") not in tying.numbers  # 3 times
        classes = tying.of_places(once)
        assert [number % 3 for number in classes] == [0, 1, 2] * 8
        alone = tying.numbers[None, "OW", None]
        assert classes[6] == 3 * alone  # the phone without context
        assert classes[3] == 3 * tying.numbers["SIL", "G", "OW"]
        assert max(classes) < tying.classes == 3 * len(tying.numbers)

    def test_a_rare_triphone_falls_back_to_the_phone_with_its_right_neighbour(self):
        two = [sentence(["GO"], {"GO": [["G", "OW"]]}), sentence(["YO"], {"YO": [["Y", "OW"]]})]
        tying = Tying.of(two, ["G", "Y", "OW", "SIL"], seen=2)
        assert tying.of_places(two[0])[6] == tying.of_places(two[1])[6] == 3 * tying.numbers[None, "OW", "SIL"]

    def test_deltas_are_slopes(self):
        made = deltas(torch.arange(20.0)[:, None] * torch.tensor([1.0, -2.0]))
        assert made.shape == (20, 6)
        torch.testing.assert_close(made[4:-4, 2:4], torch.tensor([1.0, -2.0]).expand(12, 2))
        torch.testing.assert_close(made[4:-4, 4:], torch.zeros(12, 2))

    def test_windows_do_not_overlap_and_the_rest_is_left_out(self):
        assert torch.equal(chunks(torch.arange(50)), torch.arange(42).view(2, 21))
        assert chunks(torch.arange(20)).shape == (0, 21)

    @pytest.mark.parametrize("frames", [21, 22, 50])
    def test_a_flat_start_visits_every_state_in_order(self, frames: int):
        one = sentence(["GO", "YES"], PRONUNCIATIONS)
        assert_path(one, flat_start(one, frames), frames)

    def test_realignment_finds_the_best_of_all_paths(self):
        one = sentence(["GO", "YES"], {"GO": [["G"]], "YES": [["Y"]]})
        places, frames = len(one.contexts), 15
        for seed in range(5):
            scores = torch.randn(frames, places, generator=torch.Generator().manual_seed(seed))
            path = best_path(one, scores)
            assert_path(one, path, frames)
            assert path_score(scores, path) == pytest.approx(best_of_all(one, scores), rel=1e-5)

    def test_realignment_finds_a_pause(self):
        one = sentence(["GO", "YES"], {"GO": [["G"]], "YES": [["Y"]]})
        scores = torch.full((15, 15), -1.0)
        scores[torch.arange(15), torch.arange(15)] = 0.0
        assert best_path(one, scores).tolist() == list(range(15))

    def test_too_few_frames_cannot_be_aligned(self):
        one = sentence(["GO"], PRONUNCIATIONS)
        with pytest.raises(ValueError, match="11 frames are too few for a sentence of 12 states"):
            best_path(one, torch.zeros(11, 12))

    def test_every_round_raises_the_likelihood_and_the_last_moves_few_frames(self, root: Path):
        train, test = items(root)
        paths, rounds = align(train, test, rounds=6)
        again, _ = align(train, test, rounds=6)
        assert all(torch.equal(a, b) for a, b in zip(paths, again, strict=True))
        assert all(one.gained >= 0 for one in rounds)
        assert rounds[0].gained > 0
        assert rounds[0].moved > rounds[-1].moved
        for item, path in zip((*train, *test), paths, strict=True):
            assert_path(item.sentence, path, len(item.features))

    def test_alignment_leaves_the_random_state_and_threads_alone(self, root: Path):
        train, test = items(root)
        before, threads = torch.get_rng_state(), torch.get_num_threads()
        align(train, test, rounds=1)
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == threads

    def test_an_alignment_is_stored_and_read_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write_sentences(tmp_path, speakers=2)
        first = read_aligned(tmp_path)
        monkeypatch.setattr(_alignments, "align", lambda *_: pytest.fail("the alignment was stored"))
        second = read_aligned(tmp_path)
        assert all(torch.equal(a.states, b.states) for a, b in zip(first.train, second.train, strict=True))
        assert len(list((tmp_path / ".alignments").glob("*.pt"))) == 1

    def test_an_alignment_is_made_again_once_its_code_changes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write_sentences(tmp_path, speakers=2)
        read_aligned(tmp_path)
        monkeypatch.setattr(_alignments, "digest", lambda path: "edited" if path.name == "viterbi.py" else digest(path))
        read_aligned(tmp_path)
        assert len(list((tmp_path / ".alignments").glob("*.pt"))) == 2

    @pytest.mark.parametrize("content", [b"", b"PK half a file", b"others", b"backwards", b"beyond"])
    def test_a_damaged_stored_alignment_is_made_again(self, content: bytes, tmp_path: Path):
        write_sentences(tmp_path, speakers=2)
        first = read_aligned(tmp_path)
        (path,) = (tmp_path / ".alignments").glob("*.pt")
        others = {
            b"others": [torch.zeros(3)],
            b"backwards": [one.flip(0) for one in torch.load(path)],
            b"beyond": [one + 1 for one in torch.load(path)],
        }
        path.write_bytes(content) if content not in others else torch.save(others[content], path)
        second = read_aligned(tmp_path)
        assert all(torch.equal(a.states, b.states) for a, b in zip(first.train, second.train, strict=True))

    def test_alignment_works_beside_data_that_cannot_be_written(self, tmp_path: Path):
        write_sentences(tmp_path, speakers=2)
        (tmp_path / ".alignments").write_text("a file, where a folder should be")
        assert read_aligned(tmp_path).classes == 3 * 6

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
    def test_alignment_works_on_a_full_disk(self, tmp_path: Path):
        write_sentences(tmp_path, speakers=2)
        first = read_aligned(tmp_path)
        (path,) = (tmp_path / ".alignments").glob("*.pt")
        path.unlink()
        path.with_name(f"{path.name}.new").symlink_to("/dev/full")
        second = read_aligned(tmp_path)
        assert all(torch.equal(a.states, b.states) for a, b in zip(first.train, second.train, strict=True))
        assert not path.exists()

    def test_speech_without_a_long_enough_utterance_is_reported(self, tmp_path: Path):
        write_an4(tmp_path, frames=5)
        with pytest.raises(InputError, match="every train utterance has fewer frames than its words have states"):
            read_aligned(tmp_path)

    def test_features_are_normalized_cepstra_with_two_deltas(self, root: Path):
        read, made = an4.read(root).train[0].features, read_aligned(root).train[0].features
        assert made.shape == (len(read), 39)
        assert torch.equal(made, normalized(deltas(read)))
        torch.testing.assert_close(made.mean(0), torch.zeros(39), atol=1e-5, rtol=0)
        torch.testing.assert_close(made.std(0, unbiased=False), torch.ones(39), atol=1e-2, rtol=0)
        own = (read - read.mean(0)) / read.std(0, unbiased=False)
        torch.testing.assert_close(made[:, :13], own, atol=1e-2, rtol=0)

    def test_scores_do_not_depend_on_the_frequency_of_states(self, root: Path, monkeypatch: pytest.MonkeyPatch):
        """Scores are likelihoods: a model that has learned only the priors gives equal scores."""
        seen: list[torch.Tensor] = []

        def unlearned(values: int, states: int) -> torch.nn.Module:
            model = torch.nn.Linear(values, states)
            torch.nn.init.zeros_(model.weight)
            return model

        def learn(model: Any, _: Any, x: torch.Tensor, y: torch.Tensor) -> None:
            frequent = torch.bincount(y, minlength=len(model.bias)) + 1.0
            model.bias.data = (frequent / frequent.sum()).log()

        def realign(one: Sentence, scores: torch.Tensor) -> torch.Tensor:
            seen.append(scores)
            return best_path(one, scores)

        monkeypatch.setattr(aligner, "_model", unlearned)
        monkeypatch.setattr(aligner, "_learn", learn)
        monkeypatch.setattr(aligner, "best_path", realign)
        align(*items(root), rounds=1)
        assert all(scores.abs().max() < 1e-4 for scores in seen)

    def test_utterances_shorter_than_their_states_are_left_out_with_a_message(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        write_an4(tmp_path, frames=20)  # GO YES has 21 states
        assert [len(split) for split in read_aligned(tmp_path)[:2]] == [1, 1]
        printed = " ".join(capsys.readouterr().out.split())
        assert "1 of 2 train utterances have fewer frames than states and are left out (an" in printed


def items(root: Path) -> tuple[list[Item], list[Item]]:
    found = an4.read(root)
    train, test = (
        [Item(one.features, sentence(one.words, found.pronunciations)) for one in split]
        for split in (found.train, found.test)
    )
    return train, test


def assert_path(one: Sentence, path: torch.Tensor, frames: int) -> None:
    """Check that a path goes in order from the first place to the last and skips only pauses."""
    assert len(path) == frames
    assert (path[0], path[-1]) == (0, len(one.contexts) - 1)
    assert bool((path.diff() >= 0).all())
    assert set(one.mandatory()) <= set(path.tolist())
    pauses = set(path.tolist()) & one.optional
    assert all({place - place % 3 + i for i in range(3)} <= pauses for place in pauses)  # complete pauses


def best_of_all(one: Sentence, scores: torch.Tensor) -> float:
    """The best score, by trying every path."""

    def best(frame: int, place: int) -> float:
        own = float(scores[frame, place])
        if frame == len(scores) - 1:
            return own if place == len(one.contexts) - 1 else -math.inf
        after = [place, place + 1]
        if place + 1 in one.optional and place not in one.optional:
            after.append(place + 4)
        return own + max(best(frame + 1, other) for other in after if other < len(one.contexts))

    return best(0, 0)
