"""The small model that aligns utterances, from a frame and its neighbours; the result is the same at every call.

Its classes are states of phones whatever the neighbouring phones are: few enough to learn them from a flat start. A
place in a sentence has such a state and a tied one, so the place of a frame determines both.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .states import STATES, Sentence
from .viterbi import best_path, flat_start, path_score

CONTEXT = 5
"""Frames to either side that the model sees."""
WIDTH, BATCH, LR = 256, 512, 1e-3
ROUNDS, EPOCHS = 4, 2
"""Number of realignments, and passes over the training frames before each."""


class Item(NamedTuple):
    """An utterance to align."""

    features: Tensor
    """[frames, values]"""
    sentence: Sentence


class Round(NamedTuple):
    """Statistics of a realignment."""

    moved: float
    """The fraction of training frames that moved to another place."""
    gained: float
    """The increase of the mean score of a training frame, under the model of the round."""


def align(train: Sequence[Item], others: Sequence[Item], rounds: int = ROUNDS) -> tuple[list[Tensor], list[Round]]:
    """The places of all frames of both lists of utterances; the model is trained on the first list alone."""
    phones = sorted({context[1] for item in (*train, *others) for context in item.sentence.contexts})
    states = [_states(item.sentence, phones) for item in (*train, *others)]
    paths = [flat_start(item.sentence, len(item.features)) for item in (*train, *others)]
    history: list[Round] = []
    with _reproducible():
        seen = [_windows(item.features) for item in (*train, *others)]
        known = torch.cat(seen[: len(train)])
        model = _model(known.shape[1], STATES * len(phones))
        optimizer = torch.optim.Adam(model.parameters(), LR)
        for _ in range(rounds):
            targets = torch.cat([state[path] for state, path in zip(states[: len(train)], paths, strict=False)])
            for _ in range(EPOCHS):
                _learn(model, optimizer, known, targets)
            frequent = torch.bincount(targets, minlength=STATES * len(phones)) + 1.0
            prior = (frequent / frequent.sum()).log()
            before, moved, gained = paths, 0, 0.0
            paths = []
            for i, (item, state) in enumerate(zip((*train, *others), states, strict=True)):
                with torch.no_grad():
                    scores = (model(seen[i]).log_softmax(1) - prior)[:, state]
                paths.append(best_path(item.sentence, scores))
                if i < len(train):
                    moved += int((paths[i] != before[i]).sum())
                    gained += path_score(scores, paths[i]) - path_score(scores, before[i])
            history.append(Round(moved / len(known), gained / len(known)))
    return paths, history


def _states(one: Sentence, phones: Sequence[str]) -> Tensor:
    numbers = {phone: number for number, phone in enumerate(phones)}
    return torch.tensor([STATES * numbers[context[1]] + i % STATES for i, context in enumerate(one.contexts)])


def _windows(features: Tensor) -> Tensor:
    """Each frame concatenated with its neighbours."""
    ends = features[:1].expand(CONTEXT, -1), features[-1:].expand(CONTEXT, -1)
    return torch.cat([ends[0], features, ends[1]]).unfold(0, 2 * CONTEXT + 1, 1).flatten(1)


def _model(values: int, states: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(values, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, states)
    )


def _learn(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    for rows in torch.randperm(len(x)).split(BATCH):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()


@contextmanager
def _reproducible() -> Iterator[None]:
    """Use one thread and a fixed seed, whatever those of the run are."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
