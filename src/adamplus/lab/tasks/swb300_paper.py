"""SWB-300 as in the paper; a bidirectional LSTM."""

from .switchboard import Switchboard


class Swb300Paper(Switchboard):
    """SWB-300, all training speech, bidirectional LSTM of six layers (512 a direction); Adam's rate constant."""

    paper = True
