"""AN4, spelled and spoken words, with a tenth of its speakers held out to choose settings by; a bidirectional LSTM."""

from .utterances import Utterances


class An4(Utterances):
    """AN4, states of triphones from 13 cepstra with deltas; bidirectional LSTM of six layers; pieces of 21 frames."""
