"""WikiText-2 as in the paper; a recurrent model of which word is next, of two layers of 650."""

from .text import Text


class Wikitext2Paper(Text):
    """WikiText-2, LSTM of two layers (650, untied, dropout 0.5); 20 streams of 35, clip 0.25; Adam's rate constant."""

    paper = True
