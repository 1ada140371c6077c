"""SWB-300, two hundredths of its training speech held out to choose settings by; a bidirectional LSTM."""

from .switchboard import Switchboard


class Swb300(Switchboard):
    """SWB-300, 32,000 states, bidirectional LSTM of six layers (512 a direction, projection 256); 21 frames."""
