"""The model that alignments are made with: small, of a frame and its neighbours, and the same at every call.

It tells states of phones whatever their neighbours are: few enough to be learned from a flat start. A place in a
sentence has a state of its own and a tied one, so where a frame lies decides both.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .states import STATES, Sentence
from .viterbi import best_path, flat_start, path_score

CONTEXT = 5
"""Frames to either side that it sees."""
WIDTH, BATCH, LR = 256, 512, 1e-3
ROUNDS, EPOCHS = 4, 2
"""Realignments, and passes over the training frames before each."""


class Item(NamedTuple):
    """An utterance to align."""

    features: Tensor
    """[frames, values]"""
    sentence: Sentence


class Round(NamedTuple):
    """What became of a realignment."""

    moved: float
    """The part of the training frames that got another place."""
    gained: float
    """By how much the mean score of a training frame rose, under the model of the round."""


def align(train: Sequence[Item], others: Sequence[Item], rounds: int = ROUNDS) -> tuple[list[Tensor], list[Round]]:
    """Places of all frames, of both kinds of utterances; the model learns from the first kind alone."""
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
    """Each frame with its neighbours, beside each other."""
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
    """The same numbers whatever the run's seed is, and however many threads it has."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
