"""States of triphones: the states of a sentence, and which states share a class."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SILENCE = "SIL"
STATES = 3
"""States of a phone: its beginning, middle and end."""
SEEN = 50
"""Occurrences in training sentences from which on a phone in its context has its own classes."""

Context = tuple[str | None, str, str | None]
"""A phone between its neighbours; None for a neighbour that does not matter."""


class Sentence(NamedTuple):
    """The states of a sentence, in order."""

    contexts: tuple[Context, ...]
    """The context of every state's phone; three in a row are equal."""
    optional: frozenset[int]
    """Places of states that may be skipped, three at a time: silences between words."""

    def mandatory(self) -> list[int]:
        """Places of the states that may not be skipped."""
        return [place for place in range(len(self.contexts)) if place not in self.optional]


def sentence(words: Sequence[str], pronunciations: Mapping[str, Sequence[Sequence[str]]]) -> Sentence:
    """The states of a sentence: its words in their usual pronunciation between silences.

    The silences between words may be skipped, and a phone's neighbours are those in the sentence without pauses.
    """
    spoken = [pronunciations[word][0] for word in words]
    phones = [SILENCE, *(phone for word in spoken for phone in word), SILENCE]
    triphones: list[Context] = [
        (None, phone, None) if phone == SILENCE else (phones[i - 1], phone, phones[i + 1])
        for i, phone in enumerate(phones)
    ]
    ordered: list[tuple[Context, bool]] = [(triphones[0], False)]
    at = 1
    for i, word in enumerate(spoken):
        if i:
            ordered.append(((None, SILENCE, None), True))
        ordered += [(triphone, False) for triphone in triphones[at : at + len(word)]]
        at += len(word)
    ordered.append((triphones[-1], False))
    contexts = tuple(context for context, _ in ordered for _ in range(STATES))
    optional = [may for _, may in ordered for _ in range(STATES)]
    return Sentence(contexts, frozenset(place for place, may in enumerate(optional) if may))


@dataclass(frozen=True)
class Tying:
    """The class of every state.

    A phone between its neighbours has its own classes if it is frequent in training sentences. Otherwise it shares
    those of the phone before its right neighbour if that is frequent, and otherwise those of the phone.
    """

    numbers: dict[Context, int]
    """For each context the number of its first class, divided by three."""

    @classmethod
    def of(cls, sentences: Iterable[Sentence], phones: Sequence[str], seen: int = SEEN) -> "Tying":
        """Make the tying from training sentences."""
        found: Counter[Context] = Counter()
        for one in sentences:
            spoken = [one.contexts[place] for place in one.mandatory()[::STATES]]
            found.update(context for context in spoken if context[1] != SILENCE)
            found.update((None, phone, right) for _, phone, right in spoken if phone != SILENCE)
        often = sorted((c for c, count in found.items() if count >= seen), key=lambda c: (c[1], c[2] or "", c[0] or ""))
        alone: list[Context] = [(None, phone, None) for phone in sorted({*phones, SILENCE})]
        return cls({context: number for number, context in enumerate([*alone, *often])})

    @property
    def classes(self) -> int:
        """Number of classes."""
        return STATES * len(self.numbers)

    def of_places(self, one: Sentence) -> list[int]:
        """The class of every state of a sentence."""
        return [STATES * self._number(context) + place % STATES for place, context in enumerate(one.contexts)]

    def _number(self, context: Context) -> int:
        _, phone, right = context
        known = (c for c in (context, (None, phone, right), (None, phone, None)) if c in self.numbers)
        return self.numbers[next(known)]
