"""WikiText-2; a recurrent model of which word is next, of two layers of 650."""

from .text import Text


class Wikitext2(Text):
    """WikiText-2, LSTM of two layers (650, untied, dropout 0.5); 20 streams of 35, clip 0.25."""
