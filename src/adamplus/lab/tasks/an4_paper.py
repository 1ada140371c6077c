"""AN4, spelled and spoken words, under the paper's words for its speech experiment; a bidirectional LSTM."""

from .utterances import Utterances


class An4Paper(Utterances):
    """AN4, all speakers to train, cepstra with deltas; bidirectional LSTM of six layers; Adam's rate constant."""

    paper = True
